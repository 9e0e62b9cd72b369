"""Rows of csrc/ops/nn/grouped_matmul.cpp."""

import torch
from models.torchvision_kernels import load_torchvision_kernels

from ops.row import Case, Row, floats, integers

load_torchvision_kernels()  # transformers imports torchvision
from transformers.integrations import moe  # noqa: E402, F401  (defines its operators)

aten = torch.ops.aten

EXPERTS = floats(4, 16, 8, seed=1)
F8 = torch.float8_e4m3fn


def offsets(*ends: int) -> torch.Tensor:
    return torch.tensor(ends, dtype=torch.int32)


def grouped(x: torch.Tensor, y: torch.Tensor, offs: torch.Tensor | None = None) -> torch.Tensor:
    """Casts to bfloat16, which torch.export requires."""
    return aten._grouped_mm(x.bfloat16(), y.bfloat16(), offs).float()


def to_the_end(x: torch.Tensor, experts: torch.Tensor) -> torch.Tensor:
    end = torch.full((1,), x.shape[0], dtype=torch.int32)
    return grouped(x, experts, torch.cat([offsets(2, 2, 6), end]))


def by_weights(x: torch.Tensor, ends: torch.Tensor) -> torch.Tensor:
    return torch.ops.transformers.grouped_mm_fallback(x, EXPERTS, ends)


def by_transposed_weights(x: torch.Tensor, ends: torch.Tensor) -> torch.Tensor:
    weights = EXPERTS.reshape(4, 8, 16).transpose(1, 2)
    return torch.ops.transformers.grouped_mm_fallback(x, weights, ends)


WEIGHT = floats(16, 32, seed=1).to(F8).t()  # column-major memory


def scaled(x: torch.Tensor, a: torch.Tensor, b: torch.Tensor, *bias: torch.Tensor) -> torch.Tensor:
    result = aten._scaled_mm(
        x.to(F8),
        WEIGHT,
        a,
        b,
        bias=bias[0].bfloat16() if bias else None,
        out_dtype=torch.bfloat16 if bias else torch.float32,
    )
    return result.float()


def packed(dtype: torch.dtype) -> Case:
    weight = integers(8, 16, low=-128, high=128, seed=2, dtype=torch.int8)
    return Case(
        lambda x, scales: aten._weight_int8pack_mm(x, weight, scales),
        floats(4, 16).to(dtype),
        floats(8, seed=3).to(dtype),
    )


def packed_in_halves(dtype: torch.dtype, group: int) -> Case:
    rows, columns = 64, 32
    codes = integers(columns, rows, low=0, high=16, seed=2, dtype=torch.int32)
    weight = aten._convert_weight_to_int4pack_for_cpu(codes, 1)
    parameters = floats(rows // group, columns, 2, seed=3).to(dtype)
    return Case(
        lambda x: aten._weight_int4pack_mm_for_cpu(x, weight, group, parameters),
        floats(4, rows).to(dtype),
    )


ROWS = [
    Row(
        "aten::_grouped_mm",
        cases=(
            Case(to_the_end, floats(8, 16), EXPERTS),
            Case(lambda x, y: grouped(x, y, offsets(0, 0, 8, 8)), floats(8, 16), EXPERTS),
            Case(lambda x, y: grouped(x, y, offsets(0, 3, 3, 8)), floats(4, 8, 16), floats(16, 8)),
            Case(lambda x, y: grouped(x, y, offsets(1, 3, 8)), floats(16, 8), floats(8, 16)),
            Case(grouped, floats(4, 8, 16), EXPERTS),
        ),
        tolerance={"float32": (2e-2, 2e-2)},
    ),
    Row(
        "transformers::grouped_mm_fallback",
        cases=tuple(
            Case(multiply, floats(8, 16), *experts, offsets(*ends))
            for ends in ((2, 2, 6, 8), (0, 0, 0, 0), (0, 8, 8, 8), (1, 2, 3, 5))
            for multiply, experts in (
                (torch.ops.transformers.grouped_mm_fallback, (EXPERTS,)),
                (by_weights, ()),
                (by_transposed_weights, ()),
            )
        ),
    ),
    Row(
        "aten::_weight_int8pack_mm",
        cases=(packed(torch.float32), packed(torch.float16)),
        tolerance={"float32": (1e-4, 1e-4), "float16": (1e-2, 1e-1)},
    ),
    Row(
        "aten::_weight_int4pack_mm_for_cpu",
        cases=(packed_in_halves(torch.float32, 32), packed_in_halves(torch.bfloat16, 64)),
        tolerance={"float32": (1e-4, 1e-3), "bfloat16": (2e-2, 1.0)},
    ),
    Row(
        "aten::_scaled_mm",
        cases=(
            Case(scaled, floats(16, 32), torch.tensor(0.5), torch.tensor(0.25)),
            Case(scaled, floats(16, 32), floats(16, 1).abs(), floats(1, 16, seed=3).abs()),
            Case(
                scaled,
                floats(16, 32),
                torch.tensor(0.5),
                torch.tensor(0.25),
                floats(16, seed=2),
            ),
        ),
        tolerance={"float32": (2e-2, 2e-2)},
        static="sizes are multiples of 16",
        opset=19,
    ),
]
