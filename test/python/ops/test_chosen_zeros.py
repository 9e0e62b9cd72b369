"""where and masked_fill keep the sign of a zero that a tensor has, beside constants."""

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


@pytest.mark.xfail(
    strict=True,
    reason="ONNX Runtime's Where takes a -0.0 in its second input for no value; two tensors that "
    "may both be -0.0 cannot both be its third",
)
def test_two_tensors() -> None:
    routes.check(lambda x: torch.where(x < 1, x, x * 1), (VALUES,), "fx", signs=True)
