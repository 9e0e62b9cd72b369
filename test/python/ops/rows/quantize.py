"""Rows of csrc/ops/nn/quantize.cpp.

Scales are powers of two where a quotient could lie halfway between two integers, because eager
multiplies by the reciprocal of the scale, while ONNX divides.
"""

from typing import Any

import torch
from torch.ao.quantization.fx import _decomposed  # noqa: F401  (defines quantized_decomposed)

from ops.row import Case, Row, floats, integers

aten = torch.ops.aten
quantized = torch.ops.quantized_decomposed

X = torch.cat([floats(3, 4) * 8, torch.tensor([[0.125, 0.375, -0.625, 1e4], [0, -0.0, 5, -1e4]])])
SCALES = torch.tensor([0.25, 0.5, 2.0, 0.125])
ZEROS = torch.tensor([0, 3, -7, 100])
RANGES = {
    torch.int8: (-128, 127),
    torch.uint8: (0, 255),
    torch.int16: (-(2**15), 2**15 - 1),
    torch.uint16: (0, 2**16 - 1),
    torch.int32: (-(2**24), 2**24),
}
# 4 bits, a narrow range, and nonnegative only.
NARROW = {torch.int8: ((-8, 7), (-127, 127)), torch.uint8: ((0, 15), (0, 127))}


def stored(dtype: torch.dtype) -> torch.Tensor:
    low, high = RANGES[dtype]
    return integers(3, 4, low=max(low, -(2**15)), high=min(high, 2**16), dtype=torch.int32).to(
        dtype
    )


def ranges() -> list[tuple[torch.dtype, int, int]]:
    whole = [(dtype, low, high) for dtype, (low, high) in RANGES.items()]
    return whole + [(dtype, *narrow) for dtype, some in NARROW.items() for narrow in some]


def per_tensor(zero_point: int, *tensors: Any) -> tuple[Case, ...]:
    return tuple(
        Case(
            lambda x, low=low, high=high, dtype=dtype: quantized.quantize_per_tensor(
                x, 0.25, zero_point, low, high, dtype
            ),
            X.to(given),
        )
        for dtype, low, high in ranges()
        for given in (torch.float32, torch.float16)
    )


def one(value: float, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.tensor([value], dtype=dtype)


def symmetric(x: torch.Tensor) -> Any:
    return quantized.choose_qparams_symmetric.tensor(x, -127, 127, 1e-5, torch.int8)


def tokens(x: torch.Tensor) -> Any:
    scales, zeros = quantized.choose_qparams_per_token_asymmetric(x, torch.int8)
    q = quantized.quantize_per_token(x, scales, zeros, -128, 127, torch.int8)
    return (
        scales,
        zeros,
        quantized.dequantize_per_token(q, scales, zeros, -128, 127, torch.int8, torch.float32),
    )


def tokens_symmetric(x: torch.Tensor) -> torch.Tensor:
    scales, zeros = quantized.choose_qparams_per_token(x, torch.int8)
    return quantized.quantize_per_token(x, scales, zeros, -128, 127, torch.int8)


def groups(x: torch.Tensor, group: int, zeros: torch.Tensor) -> torch.Tensor:
    scales = torch.tensor([[0.25, 0.5]]).expand(5, 2)[:, : 4 // group]
    return quantized.quantize_per_channel_group(x, scales, zeros, -8, 7, torch.int8, group)


def from_groups(x: torch.Tensor, group: int, zeros: torch.Tensor | None) -> torch.Tensor:
    scales = torch.tensor([[0.25, 0.3]]).expand(3, 2)[:, : 4 // group]
    return quantized.dequantize_per_channel_group(
        x, scales, zeros, -8, 7, torch.int8, group, torch.float32
    )


FAKE_RANGES = ((0, 255), (-128, 127), (0, 127), (-8, 7), (-(2**15), 2**15 - 1), (-300, 255))
INT32_ZEROS = torch.tensor([0, 3, -7, 7], dtype=torch.int32)


def fake(function: Any, *dtypes: torch.dtype) -> tuple[Case, ...]:
    return tuple(
        Case(lambda x, low=low, high=high: function(x, low, high), X.to(dtype))
        for low, high in FAKE_RANGES
        for dtype in dtypes or (torch.float32,)
    )


def zeros_for(low: int, high: int) -> torch.Tensor:
    return INT32_ZEROS.clamp(low, high)


# torch.export runs operators without a shape rule, so their sizes become constant.
NO_SHAPE_RULE = "torch.export captures it with constant sizes only"
FLOATS = (torch.float32, torch.float64, torch.float16)

OBSERVED = ((-3.0, 5.0), (1.0, 5.0), (-5.0, -1.0), (0.0, 1e-6), (-1e-6, 2e-6), (0.0, 0.0))


def observer(
    low: float,
    high: float,
    on: tuple[int, int] = (0, 1),
    bounds: tuple[int, int] = (0, 255),
    rows: int = 0,
    symmetric: bool = False,
) -> Case:
    """Fake quantization with a running range; `on` enables the observer and the quantization."""
    count = rows or 1

    def function(x: torch.Tensor) -> Any:
        return aten._fused_moving_avg_obs_fq_helper_functional(
            x,
            torch.tensor([on[0]]),
            torch.tensor([on[1]]),
            torch.full((count,), low),
            torch.full((count,), high),
            torch.full((count,), 0.25),
            torch.full((count,), 3, dtype=torch.int32),
            0.01,
            *bounds,
            0 if rows else -1,
            rows > 0,
            symmetric,
        )

    return Case(function, X / 3)


ROWS = [
    Row("quantized_decomposed::quantize_per_tensor", cases=(*per_tensor(0), *per_tensor(5))),
    Row(
        "quantized_decomposed::quantize_per_tensor.tensor",
        cases=(
            Case(
                lambda x, s, z: quantized.quantize_per_tensor.tensor(x, s, z, 0, 255, torch.uint8),
                X,
                one(0.5),
                one(10, torch.int64),
            ),
        ),
    ),
    Row(
        "quantized_decomposed::quantize_per_tensor.tensor2",
        cases=tuple(
            Case(
                lambda x, *q: quantized.quantize_per_tensor.tensor2(x, *q, torch.int8),
                X,
                one(0.5),
                one(10, torch.int64),
                one(low, torch.int64),
                one(90, torch.int64),
            )
            for low in (-100, 156)  # 156 does not fit int8
        ),
    ),
    Row(
        "quantized_decomposed::dequantize_per_tensor",
        cases=tuple(
            Case(
                lambda x, zero=zero, low=low, high=high, out=out: quantized.dequantize_per_tensor(
                    x, 0.3, zero, low, high, x.dtype, out_dtype=out
                ),
                stored(dtype),
            )
            for dtype, (low, high) in RANGES.items()
            for zero in (0, 5)
            for out in (None, torch.float16)
        ),
    ),
    Row(
        "quantized_decomposed::dequantize_per_tensor.tensor",
        cases=(
            Case(
                lambda x, s, z: quantized.dequantize_per_tensor.tensor(
                    x, s, z, 0, 255, torch.uint8
                ),
                stored(torch.uint8),
                one(0.3),
                one(10, torch.int64),
            ),
        ),
    ),
    Row(
        "quantized_decomposed::dequantize_per_tensor.tensor2",
        cases=(
            Case(
                lambda x, *q: quantized.dequantize_per_tensor.tensor2(x, *q, torch.int8),
                stored(torch.int8),
                one(0.3),
                one(10, torch.int64),
                one(-128, torch.int64),
                one(127, torch.int64),
            ),
        ),
    ),
    Row(
        "quantized_decomposed::quantize_per_channel",
        cases=(
            *(
                Case(
                    lambda x, low=low, high=high, dtype=dtype: quantized.quantize_per_channel(
                        x, SCALES, ZEROS.clamp(low, high), 1, low, high, dtype
                    ),
                    X,
                )
                for dtype, low, high in ranges()
            ),
            Case(
                lambda x: quantized.quantize_per_channel(
                    x, SCALES[:3], ZEROS[:3], 0, -128, 127, torch.int8
                ),
                X[:3],
            ),
        ),
    ),
    Row(
        "quantized_decomposed::dequantize_per_channel",
        cases=tuple(
            Case(
                lambda x, zeros=zeros, out=out: quantized.dequantize_per_channel(
                    x, SCALES, zeros, 1, 0, 100, x.dtype, out_dtype=out
                ),
                stored(dtype),
            )
            for dtype in RANGES
            for zeros in (None, ZEROS.abs())[: 1 if dtype == torch.uint16 else 2]
            for out in (None, torch.float16)
        ),
    ),
    Row(
        "quantized_decomposed::quantize_per_channel_group",
        cases=(
            Case(lambda x: groups(x, 2, INT32_ZEROS[:2].expand(5, 2)), X),
            Case(lambda x: groups(x, 4, torch.zeros(5, 1)), X),
        ),
        static="a scale for each row",
    ),
    Row(
        "quantized_decomposed::dequantize_per_channel_group",
        cases=(
            Case(lambda x: from_groups(x, 2, INT32_ZEROS[:2].expand(3, 2)), stored(torch.int8)),
            Case(lambda x: from_groups(x, 2, None), stored(torch.int8)),
            Case(lambda x: from_groups(x, 4, torch.ones(3, 1)), stored(torch.int8)),
        ),
        static="a scale for each row",
    ),
    Row(
        "quantized_decomposed::choose_qparams.tensor",
        cases=tuple(
            Case(
                lambda x: quantized.choose_qparams.tensor(x, -128, 127, 1e-5, torch.int8),
                x,
            )
            for x in (X[:3], X[:3].abs() + 1, -X[:3].abs(), torch.zeros(2, 3))
        ),
    ),
    Row(
        "quantized_decomposed::choose_qparams_symmetric.tensor",
        cases=(
            Case(symmetric, X[:3]),
            Case(
                lambda x: quantized.choose_qparams_symmetric.tensor(x, 0, 255, 1e-5, torch.uint8),
                X[:3],
            ),
        ),
    ),
    Row(
        (
            "quantized_decomposed::choose_qparams_per_token_asymmetric",
            "quantized_decomposed::quantize_per_token",
            "quantized_decomposed::dequantize_per_token",
        ),
        name="asymmetric tokens",
        cases=(Case(tokens, X[:3]), Case(tokens, X.reshape(1, 5, 4)[:, :3].abs() + 1)),
    ),
    Row(
        "quantized_decomposed::choose_qparams_per_token",
        cases=(Case(tokens_symmetric, X[:3]), Case(tokens_symmetric, X[:3].half())),
    ),
    Row(
        "quantized_decomposed::convert_element_type.no_fuse",
        cases=(
            Case(lambda x: quantized.convert_element_type.no_fuse(x, torch.float64), floats(3, 4)),
        ),
    ),
    Row(
        "quantized_decomposed::fake_quant_per_channel",
        cases=(
            Case(
                lambda x: quantized.fake_quant_per_channel(x, SCALES, INT32_ZEROS, 1, -128, 127), X
            ),
        ),
    ),
    Row(
        "aten::fake_quantize_per_tensor_affine",
        cases=fake(lambda x, *r: aten.fake_quantize_per_tensor_affine(x, 0.25, 3, *r), *FLOATS),
        static=NO_SHAPE_RULE,
    ),
    Row(
        "aten::fake_quantize_per_tensor_affine.tensor_qparams",
        cases=(
            Case(
                lambda x, s, z: aten.fake_quantize_per_tensor_affine.tensor_qparams(x, s, z, 0, 99),
                X,
                torch.tensor(0.25),
                torch.tensor(4, dtype=torch.int32),
            ),
        ),
        static=NO_SHAPE_RULE,
    ),
    Row(
        "aten::fake_quantize_per_channel_affine",
        cases=(
            *fake(
                lambda x, *r: aten.fake_quantize_per_channel_affine(
                    x, SCALES, zeros_for(*r), 1, *r
                ),
                *FLOATS,
            ),
            Case(
                lambda x: aten.fake_quantize_per_channel_affine(
                    x, SCALES, INT32_ZEROS.float() + 0.3, 1, 0, 255
                ),
                X,
            ),
        ),
        static=NO_SHAPE_RULE,
    ),
    Row(
        "aten::fake_quantize_per_tensor_affine_cachemask",
        cases=fake(
            lambda x, *r: aten.fake_quantize_per_tensor_affine_cachemask(x, 0.25, 3, *r), *FLOATS
        ),
        static=NO_SHAPE_RULE,
    ),
    Row(
        "aten::_fake_quantize_per_tensor_affine_cachemask_tensor_qparams",
        cases=tuple(
            Case(
                lambda x, s, z, on: aten._fake_quantize_per_tensor_affine_cachemask_tensor_qparams(
                    x, s, z, on, 0, 99
                ),
                X,
                torch.tensor(0.25),
                torch.tensor(4, dtype=torch.int32),
                torch.tensor([on]),
            )
            for on in (0, 1)
        ),
        static=NO_SHAPE_RULE,
    ),
    Row(
        "aten::fake_quantize_per_channel_affine_cachemask",
        cases=fake(
            lambda x, *r: aten.fake_quantize_per_channel_affine_cachemask(
                x, SCALES, zeros_for(*r), 1, *r
            )
        ),
        static=NO_SHAPE_RULE,
    ),
    Row(
        "aten::_fake_quantize_learnable_per_tensor_affine",
        cases=tuple(
            Case(
                lambda x, zero=zero: aten._fake_quantize_learnable_per_tensor_affine(
                    x, one(0.25), one(zero), 0, 255
                ),
                X,
            )
            for zero in (3.4, 3.6, -2.0, 300.0)
        ),
        static=NO_SHAPE_RULE,
    ),
    Row(
        "aten::_fake_quantize_learnable_per_channel_affine",
        cases=(
            Case(
                lambda x: aten._fake_quantize_learnable_per_channel_affine(
                    x, SCALES, torch.tensor([3.4, 3.6, -2.5, 0.0]), 1, -128, 127
                ),
                X,
            ),
        ),
        static=NO_SHAPE_RULE,
    ),
    Row(
        "aten::_fused_moving_avg_obs_fq_helper_functional",
        cases=(
            *(observer(low, high) for low, high in OBSERVED),
            *(observer(low, high, symmetric=True) for low, high in OBSERVED),
            observer(-3.0, 5.0, on=(0, 0)),
            observer(-3.0, 5.0, on=(1, 1)),
            observer(-3.0, 5.0, on=(1, 0)),
            observer(torch.inf, -torch.inf, on=(1, 1)),
            observer(-3.0, 5.0, bounds=(-128, 127), symmetric=True),
            observer(-3.0, 5.0, bounds=(-8, 7), symmetric=True),
            observer(-3.0, 5.0, on=(1, 1), bounds=(-128, 127), rows=5, symmetric=True),
            observer(-3.0, 5.0, rows=5),
        ),
        tolerance={"float32": (1e-4, 1e-4)},
    ),
    Row(
        ("aten::quantize_per_tensor", "aten::dequantize.self"),
        cases=tuple(
            Case(
                lambda x, dtype=dtype: torch.relu(
                    torch.quantize_per_tensor(x, 0.25, 3, dtype)
                ).dequantize(),
                X,
            )
            for dtype in (torch.quint8, torch.qint8)
        ),
        static=NO_SHAPE_RULE,
    ),
]
