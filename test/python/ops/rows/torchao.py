"""Rows of csrc/ops/nn/quantize_affine.cpp."""

from typing import Any

import torch
from torchao import quantization  # noqa: F401  (defines the operators)

from ops.row import Case, Row, floats, integers

torchao = torch.ops.torchao

X = floats(4, 8) * 8
SCALES = torch.tensor([[0.25, 0.3], [0.5, 0.7], [2.0, 1.5], [0.125, 0.11]])
ZEROS = torch.tensor([[0, 3], [-7, 100], [5, -1], [2, 1]], dtype=torch.int8)
WEIGHT = integers(4, 8, low=-128, high=128, dtype=torch.int32).to(torch.int8)
MAPPINGS = ("SYMMETRIC", "SYMMETRIC_NO_CLIPPING_ERR", "ASYMMETRIC")


def quantized(x: torch.Tensor) -> Any:
    return torchao.quantize_affine(x, [1, 4], SCALES[: x.shape[0]], ZEROS, torch.int8, -100, 100)


def quantized_rows(x: torch.Tensor) -> Any:
    scale, zero = torchao.choose_qparams_affine(
        x, "ASYMMETRIC", [1, 8], torch.int8, -128, 127, None, None, torch.int8
    )
    q = torchao.quantize_affine(x, [1, 8], scale, zero, torch.int8, -128, 127)
    return scale, zero, torchao.dequantize_affine(q, [1, 8], scale, zero, torch.int8, -128, 127)


def dequantized(x: torch.Tensor, block: list[int], scale: torch.Tensor, zero: Any) -> Any:
    weight = torchao.dequantize_affine(WEIGHT, block, scale, zero, torch.int8)
    return x @ weight.t()


def chosen(x: torch.Tensor, mapping: str, keepdim: bool) -> Any:
    return torchao.choose_qparams_affine(
        x, mapping, [1, 4], torch.int8, -8, 7, 1e-6, torch.float32, torch.int8, keepdim
    )


ROWS = [
    Row(
        "torchao::quantize_affine",
        cases=(Case(quantized, X), Case(quantized_rows, X)),
        static="the scales have fixed sizes",
    ),
    Row(
        "torchao::dequantize_affine",
        cases=tuple(
            Case(
                lambda x, block=block, scale=scale, zero=zero: dequantized(x, block, scale, zero), X
            )
            for block, scale, zero in (
                ([4, 8], torch.tensor(0.25), torch.tensor(3, dtype=torch.int8)),
                ([1, 8], SCALES[:, 0], torch.zeros(4, dtype=torch.int8)),
                ([1, 8], SCALES[:, 0], ZEROS[:, 0]),
                ([1, 4], SCALES, ZEROS),
                ([1, 4], SCALES, None),
                ([2, 4], SCALES[:2], torch.tensor([[300, 2], [0, -400]])),
            )
        ),
    ),
    Row(
        "torchao::choose_qparams_affine",
        cases=tuple(
            Case(lambda x, mapping=mapping, keep=keep: chosen(x, mapping, keep), X)
            for mapping in MAPPINGS
            for keep in (False, True)
        ),
        static="the blocks have fixed sizes",
    ),
]
