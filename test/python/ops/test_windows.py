"""Windows of all kinds, lengths and dtypes, on every route."""

from collections.abc import Callable

import pytest
import torch
from models import routes

KINDS = ("hann", "hamming", "blackman", "bartlett", "kaiser")


def window(kind: str) -> Callable[..., torch.Tensor]:
    function: Callable[..., torch.Tensor] = getattr(torch, f"{kind}_window")
    return function


def add_to(x: torch.Tensor, *windows: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return tuple(x.to(each.dtype) + each for each in windows)


@pytest.mark.parametrize("route", ["fx", "pt2", "trace"])
@pytest.mark.parametrize("kind", KINDS)
def test_constant_lengths(kind: str, route: str) -> None:
    def function(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        of = window(kind)
        lengths = (0, 1, 2, 3, 10, 17)
        return add_to(x, *(of(n) for n in lengths), *(of(n, periodic=False) for n in lengths))

    routes.check(function, (torch.zeros(1),), route)


@pytest.mark.parametrize("route", ["fx", "trace"])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64], ids=str)
def test_dtypes(dtype: torch.dtype, route: str) -> None:
    def function(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return add_to(x, *(window(kind)(9, dtype=dtype) for kind in KINDS))

    routes.check(function, (torch.zeros(1),), route)


@pytest.mark.parametrize("route", ["fx", "trace"])
def test_parameters(route: str) -> None:
    def function(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        hamming, kaiser = torch.hamming_window, torch.kaiser_window
        return add_to(
            x,
            hamming(9, True, 0.6),
            hamming(9, False, 0.6, 0.3),
            kaiser(9, True, 0.0),
            kaiser(9, True, 2.5),
            kaiser(9, False, -30.0),
            kaiser(9, False, 0.5),
        )

    routes.check(function, (torch.zeros(1),), route)


def of_input(x: torch.Tensor) -> list[torch.Tensor]:
    n = x.size(0)
    return [
        x * torch.hann_window(n),
        x * torch.hamming_window(n, False),
        x * torch.hamming_window(n, True, 0.7, 0.2),
        x * torch.blackman_window(n, dtype=torch.float64),
        x * torch.bartlett_window(n),
        x * torch.bartlett_window(n, False),
        x * torch.kaiser_window(n),
        x * torch.kaiser_window(n, False, 5.0),
    ]


@pytest.mark.parametrize("opset", [11, 12, None])
@pytest.mark.parametrize("route", ["trace", "script"])
def test_lengths_of_the_input(route: str, opset: int | None) -> None:
    others = [(torch.ones(n),) for n in (0, 1, 2, 3, 11)]
    program = of_input if route == "script" else lambda x: tuple(of_input(x))
    routes.check(program, (torch.ones(6),), route, *others, dynamic=({0: "n"},), opset=opset)


def test_integers_are_refused() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return x + torch.hann_window(3, dtype=torch.int64)

    with pytest.raises(torch.onnx.OnnxExporterError, match="floating"):
        routes.export(function, (torch.zeros(1),), "script")
