"""A program that torch.export captured runs once beside its module, before it is exported."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx_native
import pytest
import torch
from torch import nn

Error = torch.onnx.errors.OnnxExporterError
X = torch.rand(3, 4) + 0.1


class Swallowing(nn.Module):
    """The error of the capture ends in the user's handler."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        try:
            if x.sum() > 0:
                return x + 1
            return x - 1
        except Exception:
            return x * 100


class Choosing(nn.Module):
    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, int]:
        return x * 2, 3 if "FakeTensor" in repr(x) else 5


class Shaped(nn.Module):
    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        y = x if "FakeTensor" in repr(x) else x[:2]
        return {"first": x * 2, "second": y + 1}


class Typed(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.double() if "FakeTensor" in repr(x) else x * 1


class Counted(nn.Module):
    def forward(self, x: torch.Tensor) -> Any:
        return (x, x) if "FakeTensor" in repr(x) else (x, x, x + 1)


class Length(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * len(repr(x))


WRONG: dict[str, tuple[nn.Module, str]] = {
    "handler": (Swallowing(), r"the output 0 differs by up to"),
    "text": (Length(), r"the output 0 differs by up to"),
    "number": (Choosing(), r"the output 1 differs by up to 2"),
    "shape": (Shaped(), r"the output 1 has shape \[3, 4\] instead of .* \[2, 4\]"),
    "dtype": (Typed(), r"the output 0 is torch.float64 instead of torch.float32"),
    "count": (Counted(), r"it returns 2 values, the module 3"),
}


@pytest.mark.captures("auto", "torch.export")
@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_capture_is_an_error(name: str) -> None:
    module, message = WRONG[name]
    with pytest.raises(Error, match=message):
        torch.onnx.export(module.eval(), (X,), verbose=False)


@pytest.mark.captures("torch.export")
def test_the_error_has_the_name_of_the_output(tmp_path: Any) -> None:
    with pytest.raises(Error, match="the output 'many' differs") as caught:
        torch.onnx.export(
            Choosing().eval(),
            (X,),
            verbose=False,
            output_names=["twice", "many"],
            report=True,
            artifacts_dir=tmp_path,
        )
    assert "Error report has been saved to" in str(caught.value)


class Counter(nn.Module):
    """Writes to all that it has, and draws random numbers of all kinds."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(8, 3, max_norm=0.5)
        self.drop = nn.Dropout(0.5)
        self.register_buffer("total", torch.zeros(3))
        self.steps = 0

    def forward(self, x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
        self.steps += 1
        self.total += x.sum(0)
        x += 1
        torch.add(x, 1, out=self.total)
        return self.drop(x * self.embedding(i)) + self.total + torch.rand(3) + self.steps


@pytest.mark.captures("torch.export")
def test_the_run_changes_nothing() -> None:
    module = Counter().train()
    x, i = torch.rand(3), torch.tensor(2)
    before = {name: value.clone() for name, value in module.state_dict().items()}
    x_before = x.clone()
    states = torch.get_rng_state(), random.getstate(), np.random.get_state()
    with pytest.warns(torch.onnx.errors.OnnxExporterWarning):
        torch.onnx.export(module, (x, i), verbose=False)
    torch.testing.assert_close(dict(module.state_dict()), before, rtol=0, atol=0)
    torch.testing.assert_close(x, x_before, rtol=0, atol=0)
    assert module.steps == 0
    assert module.training
    assert torch.equal(states[0], torch.get_rng_state())
    assert states[1] == random.getstate()
    assert np.array_equal(states[2][1], np.random.get_state()[1])  # type: ignore


class Exporting(nn.Module):
    """Computes something else in an export on purpose."""

    def __init__(self, is_export: Callable[[], bool]) -> None:
        super().__init__()
        self.is_export = is_export

    def forward(self, x: torch.Tensor) -> Any:
        return x * 2 if self.is_export() else (x, x + 1)


@pytest.mark.captures("torch.export")
@pytest.mark.parametrize(
    "is_export",
    [
        torch.onnx.is_in_onnx_export,
        torch.compiler.is_exporting,
        torch.compiler.is_compiling,
    ],
)
def test_a_program_may_differ_in_an_export(is_export: Callable[[], bool]) -> None:
    program: Any = torch.onnx.export(Exporting(is_export).eval(), (X,), verbose=False)
    torch.testing.assert_close(program(X)[0], X * 2)


class Padded(nn.Module):
    """In eager, a fast path of PyTorch fills the padding with zeros."""

    def __init__(self) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2)

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        return self.encoder(x, src_key_padding_mask=mask)


@pytest.mark.captures("torch.export")
def test_fast_paths_are_not_differences() -> None:
    mask = torch.tensor([[False, False, False], [False, False, True]])
    torch.onnx.export(Padded().eval(), (torch.rand(2, 3, 8), mask), verbose=False)


class Unrepeatable(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.count = iter(range(1000))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * next(self.count)


@pytest.mark.captures("torch.export")
def test_a_module_that_cannot_repeat_itself_is_said_to_be_unchecked() -> None:
    with pytest.warns(
        torch.onnx.errors.OnnxExporterWarning, match="something else each time that it runs"
    ):
        torch.onnx.export(Unrepeatable().eval(), (X,), verbose=False)


def test_a_captured_program_is_exported_as_it_is() -> None:
    """Its module is not known."""
    captured = torch.export.export(Swallowing().eval(), (X,))
    program: Any = torch.onnx.export(captured, verbose=False)
    torch.testing.assert_close(program(X)[0], X * 100)


@pytest.mark.captures("torch.export")
def test_modules_without_elements_are_not_compared() -> None:
    with torch.device("meta"):
        module = nn.Linear(4, 2).eval()
        x = torch.rand(3, 4)
    assert torch.onnx.export(module, (x,), verbose=False) is not None


def test_native_captures_do_not_run_the_module(monkeypatch: pytest.MonkeyPatch) -> None:
    from onnx_native.captured import _captured_check

    monkeypatch.setattr(_captured_check, "check", lambda *_: pytest.fail("it runs"))
    program: Any = torch.onnx.export(nn.Linear(4, 2).eval(), (X,), verbose=False)
    assert program.export_report["capture"]["by"] == "native"
    assert onnx_native.is_enabled()


class OfDerivatives(nn.Module):
    """torch.export captures it with results that have no elements."""

    def forward(self, x: torch.Tensor) -> Any:
        return torch.func.grad(lambda y: (y * y).sum())(x)


def test_results_that_cannot_be_compared_are_refused() -> None:
    with pytest.raises(Error, match=r"uses torch\.func for derivatives"):
        torch.onnx.export(OfDerivatives(), (X,), dynamo=True, verbose=False)


class Named(nn.Module):
    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, str]:
        return x + 1, "of x"


@pytest.mark.parametrize("kind", ["module", "script", "program"])
def test_text_among_the_results_is_not_dropped_in_silence(kind: str) -> None:
    model: Any = Named()
    if kind == "script":
        model = torch.jit.script(model)
    elif kind == "program":
        model = torch.export.export(model, (X,))
    with pytest.warns(torch.onnx.errors.OnnxExporterWarning, match="'of x' of the program is not"):
        program = torch.onnx.export(model, (X,), dynamo=True, verbose=False)
    assert len(program.model_proto.graph.output) == 1
