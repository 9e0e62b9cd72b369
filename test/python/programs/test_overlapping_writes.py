"""Writes to elements that share memory: a single value for all of them, or an error."""

from collections.abc import Callable

import pytest
import torch
from models import routes

Function = Callable[[torch.Tensor], torch.Tensor]


def written(write: Callable[[torch.Tensor], object]) -> Function:
    def function(x: torch.Tensor) -> torch.Tensor:
        base = x.relu() + 1
        write(base)
        return base

    return function


# Programs of x [n, 5]. Eager's result depends on the order of its writes, or eager raises an error.
REFUSED: dict[str, Callable[[torch.Tensor], object]] = {
    "unfold": lambda t: t.unfold(-1, 3, 1).square_(),
    "unfold_rows": lambda t: t.unfold(0, 2, 1).mul_(2),
    "unfold_steps": lambda t: t.unfold(1, 3, 2).add_(1),
    "unfold_transposed": lambda t: t.unfold(1, 3, 1).transpose(0, 1).sub_(1),
    "unfold_part": lambda t: t.unfold(1, 3, 1)[:, 1:].exp_(),
    "as_strided": lambda t: t.view(-1).as_strided([2, 2], [1, 1]).mul_(2),
    "as_strided_three": lambda t: t.view(-1).as_strided([2, 2, 2], [1, 2, 3]).mul_(2),
    "copy": lambda t: t.unfold(1, 3, 1).copy_(t.unfold(1, 3, 1) * 2),
    "clamp_by_tensor": lambda t: t.unfold(1, 3, 1).clamp_(min=torch.arange(3.0)),
}

ALLOWED: dict[str, Callable[[torch.Tensor], object]] = {
    "fill": lambda t: t.unfold(1, 3, 1).fill_(7.0),
    "zero": lambda t: t.unfold(1, 3, 2).zero_(),
    "expand": lambda t: t.unsqueeze(0).expand(2, -1, -1).fill_(3.0),
    "masked_fill": lambda t: t.unfold(1, 3, 1).masked_fill_(t.unfold(1, 3, 1) > 1.5, 0.0),
    "assigned": lambda t: t.unfold(1, 3, 1).__setitem__((slice(None), 0), 7.0),
    "ones": lambda t: t.unfold(1, 3, 1).copy_(torch.ones(3)),
    "clamp": lambda t: t.unfold(1, 3, 1).clamp_(0.5, 1.5),
    "floor": lambda t: t.unfold(1, 3, 1).floor_(),
    "one_window": lambda t: t.unfold(1, 3, 1)[:, 1].mul_(2),
    "one_column": lambda t: t.unfold(1, 3, 1)[..., 0].mul_(2),
    "one_copy": lambda t: t.unsqueeze(0).expand(2, -1, -1)[1].mul_(2),
    "expanded_once": lambda t: t.unsqueeze(0).expand(1, -1, -1).exp_(),
    "apart": lambda t: t.unfold(1, 2, 2).square_(),
    "with_gaps": lambda t: t.unfold(1, 2, 3).square_(),
    "whole": lambda t: t.unfold(1, 5, 1).square_(),
    "strided_apart": lambda t: t.view(-1).as_strided([2, 2], [3, 1]).mul_(2),
}

X = torch.linspace(-1, 2, 15).reshape(3, 5)
DYNAMIC = [{0: "n"}]
ROUTE = pytest.mark.parametrize("route", ["fx", "pt2", "trace"])


@ROUTE
@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str, route: str, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises((torch.onnx.errors.OnnxExporterError, AssertionError)) as error:
        routes.export(written(REFUSED[name]), (X.clone(),), route, DYNAMIC)
    assert (
        "several of its elements share one memory location" in f"{error.value}{capfd.readouterr()}"
    )


@ROUTE
@pytest.mark.parametrize("name", ALLOWED)
def test_allowed(name: str, route: str) -> None:
    static = {"strided_apart"}
    others = () if name in static else ((X[:2],), (X.repeat(2, 1),))
    dynamic = None if name in static else DYNAMIC
    routes.check(written(ALLOWED[name]), (X,), route, *others, dynamic=dynamic)


@ROUTE
@pytest.mark.parametrize("number", [7.0, 0.0])
def test_negative_zeros_beside_the_written_elements(number: float, route: str) -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        base = x[:1, :1] * -0.0
        base.expand(3, 5)[-1, ::5] = number
        return base

    routes.check(function, (X.abs(),), route)


@ROUTE
@pytest.mark.parametrize("size", [2, 3])
def test_refused_whatever_the_strides_are(
    size: int, route: str, capfd: pytest.CaptureFixture[str]
) -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        base = x.permute(0, 1).clone()  # has the strides of x, which are not known
        base.unfold(-2, size, 1).cumsum_(-1)
        return base

    with pytest.raises((torch.onnx.errors.OnnxExporterError, AssertionError)) as error:
        routes.export(function, (X.T.contiguous(),), route)
    assert "share one memory location" in f"{error.value}{capfd.readouterr()}"


def expanded_in_branch(x: torch.Tensor) -> torch.Tensor:
    base = x.relu() + 1
    view = base.unfold(1, 3, 1)
    if bool(x.sum() > 0):
        view.square_()
    return base


def test_refused_in_a_branch() -> None:
    with pytest.raises(torch.onnx.errors.OnnxExporterError, match="share one memory location"):
        routes.export(expanded_in_branch, (X,), "script")
