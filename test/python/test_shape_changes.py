"""In-place shape changes of the result of a disabled dropout, which is its argument."""

from collections.abc import Callable

import pytest
import torch
from models import routes
from torch.nn import functional as F

Pair = tuple[torch.Tensor, torch.Tensor]

X = torch.linspace(-1, 2, 12).reshape(3, 4)
DYNAMIC = [{0: "n"}]
OTHERS = ((X[:1],), (X.repeat(2, 1),))


def returned(x: torch.Tensor) -> Pair:
    z = x * 2
    y = F.dropout(z, 0.5, False)
    y.unsqueeze_(0)
    return y + 1, z


def chained(x: torch.Tensor) -> torch.Tensor:
    y = F.dropout(F.dropout(x * 2, 0.5, False), 0.0, True)
    return y.unsqueeze_(0).relu()


def written_after(x: torch.Tensor) -> Pair:
    z = x * 2
    y = F.dropout(z, 0.5, False)
    y.unsqueeze_(0)
    y.add_(1)
    return y, z


def before(x: torch.Tensor) -> Pair:
    z = x * 2
    y = F.dropout(z, 0.5, False)
    w = z + 1
    y.transpose_(0, 1)
    return y, w


def used_after(x: torch.Tensor) -> Pair:
    z = x * 2
    y = F.dropout(z, 0.5, False)
    y.unsqueeze_(0)
    return z + 1, y * 2


def argument_changed(x: torch.Tensor) -> Pair:
    z = x * 2
    y = F.dropout(z, 0.5, False)
    z.transpose_(0, 1)
    return z + 1, y * 2


RIGHT: list[Callable[[torch.Tensor], object]] = [returned, chained, written_after, before]
CAPTURED_WRONG: list[Callable[[torch.Tensor], object]] = [used_after, argument_changed]


@pytest.mark.parametrize("route", routes.ROUTES)
@pytest.mark.parametrize("function", RIGHT)
def test_right(function: Callable[[torch.Tensor], object], route: str) -> None:
    routes.check(function, (X,), route, *OTHERS, dynamic=DYNAMIC)


@pytest.mark.parametrize("route", ["trace", "script"])
@pytest.mark.parametrize("function", CAPTURED_WRONG)
def test_torchscript(function: Callable[[torch.Tensor], object], route: str) -> None:
    routes.check(function, (X,), route, *OTHERS, dynamic=DYNAMIC)


# torch.export treats the result as another tensor and records wrong shapes.
@pytest.mark.parametrize("route", ["fx", "pt2"])
@pytest.mark.parametrize("function", CAPTURED_WRONG)
def test_captured_wrong(
    function: Callable[[torch.Tensor], object], route: str, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises((torch.onnx.errors.OnnxExporterError, AssertionError)) as error:
        routes.export(function, (X,), route, DYNAMIC)
    assert "in eager this changes the shape of" in f"{error.value}{capfd.readouterr()}"
