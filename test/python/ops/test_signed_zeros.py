"""Tests that the sign of zeros matches eager."""

from collections.abc import Callable

import pytest
import torch
from models import routes

INF, NAN = float("inf"), float("nan")
VALUES = torch.tensor(
    [
        0.0,
        -0.0,
        1.0,
        -1.0,
        0.3,
        -0.3,
        2.5,
        -2.5,
        0.5,
        -0.5,
        1e-30,
        -1e-30,
        7.0,
        -7.0,
        INF,
        -INF,
        NAN,
    ]
)
BOUNDS = ((0.0, 1.0), (-1.0, 0.0), (0.0, None), (None, 0.0), (-0.0, None), (None, -0.0))
# Eager's result of max(0.0, -0.0) depends on the alignment of the elements in memory.
NO_TIES = torch.tensor([-0.0, 1.0, -1.0, 2.5, -0.5])

UNARY: dict[str, Callable[[torch.Tensor], object]] = {
    "floor_divide": lambda x: (x // 2.0, x // -2.0, x // 0.5, 3.0 // x, -3.0 // x, 0.0 // x),
    "div_floor": lambda x: [torch.div(x, n, rounding_mode="floor") for n in (2.0, -0.25, 3)],
    "div_trunc": lambda x: [torch.div(x, n, rounding_mode="trunc") for n in (2.0, -0.25, 3)],
    "round": lambda x: (x.round(), x.trunc(), x.fix(), x.floor(), x.ceil(), x.frac()),
    "clamp": lambda x: [x.clamp(*bounds) for bounds in BOUNDS],
    "clamp_min": lambda x: (x.clamp_min(0), x.clamp_max(0), x.clamp_min(-0.5)),
    "relu": lambda x: (x.relu(), torch.nn.functional.relu6(x), torch.nn.functional.hardtanh(x)),
    "remainder": lambda x: (x % 2.0, x % -2.0, torch.fmod(x, 2.0), torch.fmod(x, -2.0)),
    "copysign": lambda x: (torch.copysign(x, -0.0), torch.copysign(x, 0.0)),
    "heaviside": lambda x: torch.heaviside(x, torch.tensor(-0.0, dtype=x.dtype)),
    "log1p": lambda x: x.clamp(-0.5, 2).log1p(),
    "neg": lambda x: (-x, x.sgn(), x.reciprocal(), x * -1, 0 - x, x * 0.0),
}
BINARY: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "floor_divide": torch.floor_divide,
    "div_floor": lambda x, y: torch.div(x, y, rounding_mode="floor"),
    "div_trunc": lambda x, y: torch.div(x, y, rounding_mode="trunc"),
    "remainder": torch.remainder,
    "fmod": torch.fmod,
    "copysign": torch.copysign,
    "atan2": torch.atan2,
}
ROUTE = pytest.mark.parametrize("route", ["fx", "trace"])
DTYPE = pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)


@ROUTE
@DTYPE
@pytest.mark.parametrize("function", list(UNARY.values()), ids=list(UNARY))
def test_of_one(function: Callable[..., object], dtype: torch.dtype, route: str) -> None:
    routes.check(
        lambda x: tuple(torch.utils._pytree.tree_leaves(function(x))),
        (VALUES.to(dtype),),
        route,
        signs=True,
    )


@ROUTE
@DTYPE
@pytest.mark.parametrize("function", list(BINARY.values()), ids=list(BINARY))
def test_of_two(function: Callable[..., object], dtype: torch.dtype, route: str) -> None:
    x, y = (each.flatten().to(dtype) for each in torch.meshgrid(VALUES, VALUES, indexing="ij"))
    routes.check(function, (x.clone(), y.clone()), route, signs=True)


@ROUTE
@DTYPE
def test_greater_of_two(dtype: torch.dtype, route: str) -> None:
    x = torch.cat([NO_TIES, NO_TIES, torch.tensor([NAN, -0.0, NAN])]).to(dtype)
    y = torch.cat([NO_TIES, NO_TIES.flip(0), torch.tensor([-0.0, NAN, NAN])]).to(dtype)

    def function(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return (x.maximum(y), x.minimum(y), x.fmax(y), x.fmin(y))

    routes.check(function, (x, y), route, signs=True)


@ROUTE
@pytest.mark.parametrize("dtype", [torch.int8, torch.int32, torch.int64], ids=str)
def test_integers(dtype: torch.dtype, route: str) -> None:
    """Dtypes without a negative zero get no extra nodes."""
    x = torch.tensor([-7, -1, 0, 1, 7, 12], dtype=dtype)
    routes.check(
        lambda x: (x // 2, x.clamp(min=0), x.clamp(max=0), x.clamp(-1, 3), x.trunc()), (x,), route
    )
