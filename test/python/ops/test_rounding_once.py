"""Operators that eager computes in float32 for 16-bit floats and rounds once at the end.

Rounding each intermediate result loses digits where terms cancel. Each result must be within
one unit in the last place of the exact one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn import functional as F

from ops import checking
from ops.row import Case

aten = torch.ops.aten

FORMULAS: dict[str, tuple[Callable[..., Any], tuple[tuple[int, ...], ...]]] = {
    "addcmul": (lambda x, y, z: torch.addcmul(x, y, z, value=-0.7), ((40, 9),) * 3),
    "addcdiv": (lambda x, y, z: torch.addcdiv(x, y, z, value=3), ((40, 9), (40, 9), (9,))),
    "lerp": (torch.lerp, ((40, 9),) * 3),
    "lerp of a number": (lambda x, y: torch.lerp(x, y, 0.3), ((40, 9),) * 2),
    "logaddexp": (torch.logaddexp, ((40, 9),) * 2),
    "logaddexp2": (torch.logaddexp2, ((40, 9),) * 2),
    "atan2": (torch.atan2, ((40, 9),) * 2),
    "hypot": (torch.hypot, ((40, 9),) * 2),
    "log2": (lambda x: torch.log2(x.abs()), ((200,),)),
    "log10": (lambda x: torch.log10(x.abs()), ((200,),)),
    "silu": (F.silu, ((200,),)),
    "glu": (F.glu, ((20, 10),)),
    "softplus": (lambda x: F.softplus(x, 1.7), ((200,),)),
    "sinc": (torch.sinc, ((200,),)),
    "cumprod": (lambda x: torch.cumprod(x, -1), ((20, 7),)),
    "log1p": (lambda x: torch.log1p(x.abs()), ((200,),)),
    "expm1": (torch.expm1, ((200,),)),
    "round to decimals": (lambda x: torch.round(x, decimals=1), ((200,),)),
    "cosine_similarity": (lambda x, y: F.cosine_similarity(x, y, 1), ((9, 40),) * 2),
    "baddbmm": (
        lambda x, y, z: torch.baddbmm(x, y, z, alpha=0.3),
        ((2, 4, 5), (2, 4, 6), (2, 6, 5)),
    ),
    "addbmm": (torch.addbmm, ((4, 5), (3, 4, 6), (3, 6, 5))),
    "avg_pool2d with a divisor": (
        lambda x: F.avg_pool2d(x, 3, 2, 1, divisor_override=7),
        ((2, 3, 9, 9),),
    ),
    "avg_pool2d with a ragged end": (
        lambda x: F.avg_pool2d(x, 3, 2, 1, ceil_mode=True, divisor_override=5),
        ((2, 3, 8, 8),),
    ),
    "adaptive_avg_pool2d": (lambda x: F.adaptive_avg_pool2d(x, (3, 2)), ((2, 3, 7, 5),)),
    "softmax's gradient": (
        lambda x, y: aten._softmax_backward_data(x, y, -1, x.dtype),
        ((8, 9),) * 2,
    ),
    "log_softmax's gradient": (
        lambda x, y: aten._log_softmax_backward_data(x, y, 0, x.dtype),
        ((8, 9),) * 2,
    ),
    "attention": (F.scaled_dot_product_attention, ((2, 4, 6, 8),) * 3),
    "causal attention": (
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=1.3),
        ((2, 4, 6, 8),) * 3,
    ),
    "attention with a mask": (
        F.scaled_dot_product_attention,
        ((3, 6, 8), (3, 5, 8), (3, 5, 8), (6, 5)),
    ),
    "attention of groups": (
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, enable_gqa=True),
        ((1, 4, 6, 8), (1, 2, 5, 8), (1, 2, 5, 8)),
    ),
}
# float16 Gemm and MatMul stay: casting the weights at each run costs more than it gains.
LINEAR = {"linear": (F.linear, ((3, 4, 6), (5, 6), (5,)))}


def units_off(result: torch.Tensor, exact: torch.Tensor) -> float:
    """Returns the largest difference in units in the last place of `result`'s dtype.

    Results below 1e-4 have no further correct digits in float32.
    """
    size = torch.maximum(result.double().abs(), exact.abs()).clamp(min=1e-4)
    unit = torch.exp2(torch.floor(torch.log2(size))) * torch.finfo(result.dtype).eps
    return float(((result.double() - exact).abs() / unit).max())


def inputs_of(shapes: tuple[tuple[int, ...], ...], dtype: torch.dtype) -> tuple[torch.Tensor, ...]:
    generator = torch.Generator().manual_seed(3)
    return tuple((torch.randn(shape, generator=generator) * 3).to(dtype) for shape in shapes)


@pytest.mark.parametrize("opset", [18, 22])
@pytest.mark.parametrize(
    ("name", "dtype"),
    [(name, dtype) for name in FORMULAS for dtype in (torch.bfloat16, torch.float16)]
    + [(name, torch.bfloat16) for name in LINEAR],
    ids=str,
)
def test_one_rounding(name: str, dtype: torch.dtype, opset: int) -> None:
    function, shapes = (FORMULAS | LINEAR)[name]
    inputs = inputs_of(shapes, dtype)
    case = Case(function, *inputs)
    program = checking.export(case, opset_version=opset)
    running = checking.session(program)
    names = [argument.name for argument in running.get_inputs()]
    feeds = {name: checking.ort_value(x) for name, x in zip(names, inputs, strict=True)}
    outputs = [output.name for output in running.get_outputs()]
    (value,) = running.run_with_ort_values(outputs, feeds)
    result = torch.from_dlpack(value._ortvalue.to_dlpack())
    exact = function(*(x.double() for x in inputs))
    assert result.dtype is dtype
    assert units_off(result, exact) <= 1


def test_scores_of_attention_do_not_overflow() -> None:
    """The products of float16 queries and keys may exceed 65504."""
    query = torch.full((1, 1, 3, 4), 200.0, dtype=torch.float16)
    value = torch.randn(1, 1, 3, 4, dtype=torch.float16)
    case = Case(lambda q, v: F.scaled_dot_product_attention(q, q, v, scale=1.0), query, value)
    running = checking.session(checking.export(case))
    names = [argument.name for argument in running.get_inputs()]
    feeds = dict(zip(names, (query.numpy(), value.numpy()), strict=True))
    (result,) = running.run(None, feeds)
    torch.testing.assert_close(torch.from_numpy(result), case.function(query, value))
