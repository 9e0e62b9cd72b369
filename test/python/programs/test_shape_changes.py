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


def lifted(x: torch.Tensor) -> Pair:
    z = x * 2
    y = torch.ops.aten.lift(z)
    y.unsqueeze_(0)
    return z + 1, y * 2


def lifted_afresh(x: torch.Tensor) -> Pair:
    z = x * 2
    y = torch.ops.aten.lift_fresh(z)
    z.transpose_(0, 1)
    return z + 1, y * 2


def positive(x: torch.Tensor) -> Pair:
    z = x * 2
    y = torch.positive(z)
    z.unsqueeze_(0)
    return z + 1, y * 2


def natively_dropped(x: torch.Tensor) -> Pair:
    z = x * 2
    y = torch.ops.aten.native_dropout(z, 0.5, False)[0]
    y.unsqueeze_(0)
    return z + 1, y * 2


def natively_dropped_argument(x: torch.Tensor) -> Pair:
    z = x * 2
    y = torch.ops.aten.native_dropout(z, 0.0, True)[0]
    z.transpose_(0, 1)
    return z + 1, y * 2


def natively_dropped_write(x: torch.Tensor) -> Pair:
    z = x * 2
    y = torch.ops.aten.native_dropout(z, 0.5, False)[0]
    y[0].add_(1)
    return z + 1, y * 2


def natively_dropped_read(x: torch.Tensor) -> Pair:
    z = x * 2
    y = torch.ops.aten.native_dropout(z, 0.5, False)[0]
    return z + 1, y * 2


RIGHT: list[Callable[[torch.Tensor], object]] = [returned, chained, written_after, before]
CAPTURED_WRONG: list[Callable[[torch.Tensor], object]] = [used_after, argument_changed, lifted]
OTHER_CAPTURES: list[tuple[Callable[[torch.Tensor], object], str]] = [
    (lifted_afresh, "in eager this changes the shape of"),
    (natively_dropped, "in eager the result of a native_dropout that is off is a copy"),
    (natively_dropped_argument, "in eager the result of a native_dropout that is off is a copy"),
    (natively_dropped_write, "writes to the result of a native_dropout that is off"),
]


@pytest.mark.parametrize("route", routes.ROUTES)
@pytest.mark.parametrize("function", RIGHT)
def test_right(function: Callable[[torch.Tensor], object], route: str) -> None:
    routes.check(function, (X,), route, *OTHERS, dynamic=DYNAMIC)


@pytest.mark.parametrize("route", ["trace", "script"])
@pytest.mark.parametrize("function", [*CAPTURED_WRONG, positive])
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


@pytest.mark.parametrize("route", ["fx", "pt2"])
@pytest.mark.parametrize(("function", "said"), OTHER_CAPTURES)
def test_other_captures(
    function: Callable[[torch.Tensor], object],
    said: str,
    route: str,
    capfd: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises((torch.onnx.errors.OnnxExporterError, AssertionError)) as error:
        routes.export(function, (X,), route, DYNAMIC)
    assert said in f"{error.value}{capfd.readouterr()}"


@pytest.mark.parametrize("route", routes.ROUTES)
def test_native_dropout_alone(route: str) -> None:
    routes.check(natively_dropped_read, (X,), route, *OTHERS, dynamic=DYNAMIC)
