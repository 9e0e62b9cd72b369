"""Dynamic sizes on which the capture specialized: a correct model or an error."""

from __future__ import annotations

import pathlib
from collections.abc import Callable
from typing import Any

import onnx
import onnx_native
import pytest
import torch
from models import routes
from onnx_native import _library

pytestmark = pytest.mark.captures("auto", "torch.export")

DYNAMIC = torch.export.Dim.DYNAMIC
AUTO = torch.export.Dim.AUTO
Error = torch.onnx.errors.OnnxExporterError
Warned = torch.onnx.errors.OnnxExporterWarning


class Function(torch.nn.Module):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: torch.Tensor) -> Any:
        return self.function(*args)


def export(function: Callable[..., Any], *args: torch.Tensor, shapes: Any) -> Any:
    program = torch.onnx.export(
        Function(function), args, dynamo=True, verbose=False, dynamic_shapes=(shapes,)
    )
    assert program is not None
    onnx.checker.check_model(program.model_proto, full_check=True)
    return program


def through_file(captured: torch.export.ExportedProgram, folder: pathlib.Path) -> tuple[int, str]:
    """Exports a `.pt2` file with the command line, without Python; returns the exit code."""
    torch.export.save(captured, folder / "model.pt2")
    target = folder / "model.onnx"
    code = _library.extension().command_line([str(folder / "model.pt2"), "-o", str(target)])
    return code, str(target)


PINS = {
    "int": lambda x: x * int(x.shape[0] * 0.5),
    "trunc": lambda x: x + int(x.shape[0] / 3),
    "slice": lambda x: x[: int(x.shape[0] * 0.75)],
    "full": lambda x: torch.full((3,), int(x.shape[0] ** 0.5)),
    "branch": lambda x: x * 2 if x.shape[0] // 2 == 2 else x,
    "product": lambda x: x * 2 if x.shape[0] * x.shape[1] == 12 else x,
}


def captures_natively() -> bool:
    return onnx_native._options.current().capture == "auto"


@pytest.mark.parametrize("name", PINS)
def test_a_pinned_dimension_is_an_error(name: str) -> None:
    """It pins it in torch.export; the native capture keeps it symbolic, or both branches."""
    shapes = ({0: "batch", 1: "length"},) if name == "product" else ({0: "batch"},)
    if captures_natively():
        program = export(PINS[name], torch.randn(4, 3), shapes=shapes)
        for n in (1, 4, 9):
            x = torch.randn(n, 3)
            torch.testing.assert_close(program(x)[0], PINS[name](x))
        return
    with pytest.raises(Error, match=r"dynamic dimension batch"):
        export(PINS[name], torch.randn(4, 3), shapes=shapes)


def test_the_error_names_the_line() -> None:
    by_torch = onnx_native.options(capture="torch.export")
    with by_torch, pytest.raises(Error, match=r"test_specialized\.py:\d+") as caught:
        export(PINS["int"], torch.randn(4, 3), shapes=({0: "batch"},))
    assert "x.shape[0] * 0.5" in str(caught.value)
    assert "batch" in str(caught.value)


def branch_of_a_maximum(x: torch.Tensor) -> torch.Tensor:
    return x * 2 if torch.sym_max(x.shape[0], 8) == 8 else x


def branch_of_a_minimum(x: torch.Tensor) -> torch.Tensor:
    return x * 2 if torch.sym_min(x.shape[0], 8) == x.shape[0] else x


# The graph has a SymPy guard, the archive a Python guard: max(8, n) == 8.
@pytest.mark.parametrize("function", [branch_of_a_maximum, branch_of_a_minimum])
@pytest.mark.parametrize("route", ["fx", "pt2"])
def test_a_bound_pins_no_dimension(function: Callable[..., Any], route: str) -> None:
    every = [(torch.randn(n, 3),) for n in (4, 1, 8)]
    routes.check(function, every[0], route, *every[1:], dynamic=[{0: DYNAMIC}])


@pytest.mark.parametrize("name", PINS)
@pytest.mark.parametrize("loaded", [False, True])
def test_pins_of_programs_that_were_captured_before(
    name: str, loaded: bool, tmp_path: pathlib.Path, capfd: pytest.CaptureFixture[str]
) -> None:
    axes = {0: AUTO, 1: AUTO} if name == "product" else {0: AUTO}
    captured = torch.export.export(
        Function(PINS[name]), (torch.randn(4, 3),), dynamic_shapes=((axes,),)
    )
    code, _ = through_file(captured, tmp_path)
    assert code != 0
    assert "dynamic dimension" in capfd.readouterr().err
    if loaded:
        captured = torch.export.load(tmp_path / "model.pt2")
    with pytest.raises(Error, match="dynamic dimension"):
        torch.onnx.export(captured, dynamo=True, verbose=False)


RELATIONS = {
    "even": lambda x: x.reshape(2, -1) if x.shape[0] % 2 == 0 else x,
    "half": lambda x: x[: x.shape[0] // 2],
    "rounded": lambda x: x * round(x.shape[0] * 0.5),
    "positive": lambda x: x * 2 if x.shape[0] > 1 else x,
}


@pytest.mark.parametrize("name", RELATIONS)
def test_relations_leave_dimensions_dynamic(name: str, tmp_path: pathlib.Path) -> None:
    program = export(RELATIONS[name], torch.randn(4, 3), shapes=({0: "batch"},))
    for n in (4, 6, 10):
        x = torch.randn(n, 3)
        torch.testing.assert_close(program(x)[0], RELATIONS[name](x))
    if name == "rounded":
        return  # torch.export.save does not support round
    captured = torch.export.export(
        Function(RELATIONS[name]), (torch.randn(4, 3),), dynamic_shapes=(({0: AUTO},),)
    )
    assert through_file(captured, tmp_path)[0] == 0


def test_a_size_that_is_another_plus_one() -> None:
    def function(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x[1:] + y

    program = export(function, torch.randn(5), torch.randn(4), shapes=({0: DYNAMIC}, {0: DYNAMIC}))
    for n in (3, 7):
        x, y = torch.randn(n + 1), torch.randn(n)
        torch.testing.assert_close(program(x, y)[0], function(x, y))


SQUEEZES: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "dim": lambda x: x.squeeze(0) * 2,
    "negative": lambda x: x.squeeze(-2) * 2,
    "all": lambda x: x.squeeze() * 2,
    "dims": lambda x: torch.squeeze(x, (0, 1)) * 2,
    "in_place": lambda x: (x * 2).squeeze_(0),
    "product": lambda x: x.repeat(1, 2)[:, :1].squeeze(0),
}


@pytest.mark.parametrize("name", SQUEEZES)
def test_squeeze_of_a_size_that_was_one(name: str) -> None:
    message = r"dynamic size batch, which was 1 in the example|the dynamic dimension batch"
    with pytest.raises(Error, match=message):
        export(SQUEEZES[name], torch.randn(1, 3), shapes=({0: "batch"},))


@pytest.mark.parametrize("name", SQUEEZES)
def test_squeeze_of_other_sizes(name: str) -> None:
    message = "of size batch, also where the size is 1 and eager removes it|  batch != 1 "
    with pytest.warns(Warned, match=message):
        program = export(SQUEEZES[name], torch.randn(2, 3), shapes=({0: "batch"},))
    for n in (2, 5):
        x = torch.randn(n, 3)
        torch.testing.assert_close(program(x)[0], SQUEEZES[name](x))


def test_squeeze_of_a_data_dependent_size() -> None:
    def positive(x: torch.Tensor) -> torch.Tensor:
        return (x > 0).nonzero().squeeze() * 2

    with pytest.warns(Warned, match=r"keeps dimension 0 of size u\d+[\s\S]* test_specialized.py:"):
        program = export(positive, torch.randn(7), shapes=(None,))
    for x in (torch.ones(2), -torch.ones(3)):
        x = torch.cat([x, -torch.ones(5)])[:7]
        torch.testing.assert_close(program(x)[0], positive(x))


def test_chunks_of_a_dynamic_size() -> None:
    """The number of pieces is that of the example, with a warning where it depends on the size."""

    def chunks(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return x.chunk(4)

    message = r"makes 3 pieces, so it is valid only where [\s\S]* test_specialized.py:"
    with onnx_native.options(capture="torch.export"), pytest.warns(Warned, match=message):
        program = export(chunks, torch.randn(5), shapes=({0: "batch"},))
    x = torch.randn(6)
    torch.testing.assert_close(list(program(x)), list(chunks(x)))


def test_two_chunks(recwarn: pytest.WarningsRecorder) -> None:
    with onnx_native.options(capture="torch.export"):
        export(lambda x: x.chunk(2), torch.randn(4), shapes=({0: "batch"},))
    assert not [str(each.message) for each in recwarn if issubclass(each.category, Warned)]


def test_squeeze_of_a_size_that_is_never_one(recwarn: pytest.WarningsRecorder) -> None:
    batch = torch.export.Dim("batch", min=3)
    for function in (lambda x: x.squeeze(0) * 2, lambda x: x.unsqueeze(0).squeeze(0) * 2):
        export(function, torch.randn(3, 4), shapes=({0: batch},))
    assert not [str(each.message) for each in recwarn if issubclass(each.category, Warned)]


@pytest.mark.parametrize("script", [False, True])
@pytest.mark.parametrize("form", ["dim", "all", "in_place"])
def test_squeeze_in_torchscript(script: bool, form: str) -> None:
    class Squeezed(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return (x + 1).squeeze(0)

    class SqueezedAll(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return (x + 1).squeeze()

    class SqueezedInPlace(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return (x + 1).squeeze_(0)

    module = {"dim": Squeezed, "all": SqueezedAll, "in_place": SqueezedInPlace}[form]()
    x = torch.randn(1, 3)
    source = torch.jit.script(module) if script else torch.jit.trace(module, x)
    with pytest.raises(Error, match=r"dynamic size batch, which was 1 in the example"):
        torch.onnx.export(source, (x,), dynamo=True, verbose=False, dynamic_shapes=({0: "batch"},))
    program = torch.onnx.export(source, (x,), dynamo=True, verbose=False)
    assert program is not None
    torch.testing.assert_close(program(x)[0], module(x))


def test_squeeze_in_a_file(tmp_path: pathlib.Path, capfd: pytest.CaptureFixture[str]) -> None:
    with torch.fx.experimental._config.patch(backed_size_oblivious=True):
        captured = torch.export.export(
            Function(SQUEEZES["dim"]), (torch.randn(1, 3),), dynamic_shapes=(({0: DYNAMIC},),)
        )
    code, _ = through_file(captured, tmp_path)
    assert code != 0
    assert "was 1 in the example" in capfd.readouterr().err
    captured = torch.export.export(
        Function(SQUEEZES["dim"]), (torch.randn(2, 3),), dynamic_shapes=(({0: DYNAMIC},),)
    )
    assert through_file(captured, tmp_path)[0] == 0


def test_broadcast_of_a_size_that_was_one() -> None:
    def function(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return (x + y).sum(0) / (x + y).shape[0]

    args = torch.randn(1, 3), torch.randn(4, 3)
    if captures_natively():
        program = export(function, *args, shapes=({0: "batch"}, {0: "other"}))
        for sizes in ((1, 4), (5, 5), (4, 1), (1, 1)):
            others = [torch.randn(n, 3) for n in sizes]
            torch.testing.assert_close(program(*others)[0], function(*others))
    else:
        with pytest.raises(Error, match=r"the example has 1 and 4"):
            export(function, *args, shapes=({0: "batch"}, {0: "other"}))
    program = export(function, *args, shapes=(None, {0: "other"}))
    for n in (1, 4):
        args = torch.randn(1, 3), torch.randn(n, 3)
        torch.testing.assert_close(program(*args)[0], function(*args))


@onnx_native.options(branches="example")
def test_a_branch_on_a_size_of_one() -> None:
    with pytest.raises(Error, match="dynamic dimension batch"):
        export(lambda x: x * 2 if x.shape[0] == 1 else x, torch.randn(1, 3), shapes=({0: "batch"},))


def test_an_example_of_size_one() -> None:
    """There is no error if the size of 1 makes no difference."""

    class Network(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = torch.nn.Conv2d(3, 4, 3)
            self.linear = torch.nn.Linear(4, 5)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = self.conv(x).relu().mean((2, 3), keepdim=True).squeeze(-1).squeeze(-1)
            y = y.view(y.size(0), -1) + torch.zeros(1, 4)
            return torch.cat([self.linear(y), y.expand(x.shape[0], 4)], 1).reshape(-1, 3, 3)

    module = Network().eval()
    program = torch.onnx.export(
        module, (torch.randn(1, 3, 8, 8),), dynamo=True, verbose=False, dynamic_shapes=({0: "n"},)
    )
    assert program is not None
    for n in (1, 3):
        x = torch.randn(n, 3, 8, 8)
        torch.testing.assert_close(program(x)[0], module(x), rtol=1e-4, atol=1e-5)


def test_static_dimensions_may_be_pinned() -> None:
    x = torch.randn(4, 3)
    program = export(PINS["int"], x, shapes=(None,))
    torch.testing.assert_close(program(x)[0], PINS["int"](x))
    assert onnx_native.__name__
