"""where and masked_fill with constants keep the sign of a tensor's zeros."""

from collections.abc import Callable

import pytest
import torch
from models import routes

VALUES = torch.tensor([0.0, -0.0, 1.0, -1.0, -0.0, float("nan"), float("-inf")])
FUNCTIONS: dict[str, Callable[[torch.Tensor], object]] = {
    "tensor_first": lambda x: (torch.where(x < 1, x, 0.0), torch.where(x < 1, x, 2.0)),
    "tensor_last": lambda x: (torch.where(x > 0, 0.0, x), torch.where(x > 0, 2.0, x)),
    "zero_last": lambda x: (torch.where(x > 0, 1.0, -0.0), torch.where(x > 0, -0.0, 1.0)),
    "masked_fill": lambda x: (x.masked_fill(x > 0, 0.0), x.masked_fill(x > 0, 3.0)),
    "in_place": lambda x: x.clone().masked_fill_(x > 0, 1.0),
}


@pytest.mark.parametrize("route", ["fx", "trace"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16], ids=str)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_signs(name: str, dtype: torch.dtype, route: str) -> None:
    function = FUNCTIONS[name]
    routes.check(
        lambda x: tuple(torch.utils._pytree.tree_leaves(function(x))),
        (VALUES.to(dtype),),
        route,
        signs=True,
    )


# x is [n, 7]; the other operand is a filled tensor, or a tensor of integers.
BESIDE_TENSORS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "zeros": lambda x: torch.where(x < 1, x, torch.zeros(7)),
    "zeros_like": lambda x: torch.where(x < 1, x, torch.zeros_like(x)),
    "zeros_by_size": lambda x: torch.where(x < 1, x, torch.zeros(x.size(0), 7)),
    "new_zeros": lambda x: torch.where(x < 1, x, x.new_zeros(x.shape)),
    "full_like": lambda x: torch.where(x < 1, x, torch.full_like(x, 2.0)),
    "expanded": lambda x: torch.where(x < 1, x, torch.tensor(0.0).expand(x.size(0), 7)),
    "range": lambda x: torch.where(x < 1, x, torch.arange(7).to(x.dtype)),
    "reshaped": lambda x: torch.where(x < 1, x, torch.ones(x.size(0), 1).t().reshape(-1, 1)),
    "truth": lambda x: torch.where(x < 1, x, (x > 1).to(x.dtype)),
}


@pytest.mark.parametrize("route", ["fx", "pt2", "trace"])
@pytest.mark.parametrize("name", BESIDE_TENSORS)
def test_beside_tensors(name: str, route: str) -> None:
    function = BESIDE_TENSORS[name]
    rows = VALUES.repeat(3, 1)
    routes.check(function, (rows,), route, (rows[:1],), dynamic=[{0: "n"}], signs=True)


@pytest.mark.xfail(
    strict=True,
    reason="ONNX Runtime's Where takes a -0.0 in its second input for no value; two tensors that "
    "may both be -0.0 cannot both be its third",
)
def test_two_tensors() -> None:
    routes.check(lambda x: torch.where(x < 1, x, x * 1), (VALUES,), "fx", signs=True)
