"""What a program adds behind PyTorch's questions whether it is captured is in every model."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable
from typing import Any

import onnx_native
import pytest
import torch
from torch import nn

X = torch.tensor([0.5, -2.0, 3.0])


def answers(x: torch.Tensor) -> torch.Tensor:
    """Adds a number for each question."""
    if torch.onnx.is_in_onnx_export():
        x = x + 1
    if torch.compiler.is_exporting():
        x = x + 10
    if torch.compiler.is_compiling():
        x = x + 100
    if torch.jit.is_tracing():
        x = x + 1000
    if torch.jit.is_scripting():
        x = x + 10000
    return x


class Asks(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return answers(x)


class AsksBeforeLoop(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = answers(x)
        while x.sum() > 0:
            x = x - 1
        return y + x


class AsksInBranch(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.sum() > 0:
            return answers(x)
        return answers(x) * 2


def only_eager(x: torch.Tensor) -> torch.Tensor:
    """TorchScript does not compile it."""
    return x * 1 if locals() else x


class LeavesOutOfScripts(nn.Module):
    """As torchvision does."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if not torch.jit.is_scripting() and not torch.jit.is_tracing():
            x = only_eager(x)
        while x.sum() > 0:
            x = x - 1
        return x


def exported(model: nn.Module, capture: str = "auto") -> Any:
    with onnx_native.options(capture=capture):
        return torch.onnx.export(model.eval(), (X,), dynamo=True, verbose=False)


@pytest.mark.parametrize(
    ("model", "capture", "by"),
    [
        (Asks(), "auto", "native"),
        (Asks(), "torch.export", "torch.export"),
        (AsksBeforeLoop(), "auto", "TorchScript"),
        (AsksInBranch(), "auto", None),
    ],
)
def test_the_answers_are_those_of_torch_export(
    model: nn.Module, capture: str, by: str | None
) -> None:
    program = exported(model, capture)
    assert by is None or program.export_report["capture"]["by"] == by
    after = model(X) - answers(X) if isinstance(model, AsksBeforeLoop) else 0.0
    torch.testing.assert_close(program(X)[0], X + 111 + after)
    assert torch.equal(answers(X), X)


def test_what_torchscript_cannot_compile_stays_out() -> None:
    program = exported(LeavesOutOfScripts())
    assert program.export_report["capture"]["by"] == "TorchScript"
    torch.testing.assert_close(program(X)[0], LeavesOutOfScripts()(X))


class Swallows(nn.Module):
    """torch.export captures it as outside of an export: the handler catches its error."""

    def __init__(self, ask: Callable[[], bool]) -> None:
        super().__init__()
        self.ask = ask

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        try:
            if self.ask() and float(x.sum()) > 0:
                return x * 100
        except Exception:
            pass
        return x


@pytest.mark.captures("torch.export")
@pytest.mark.parametrize("ask", [torch.onnx.is_in_onnx_export, torch.compiler.is_exporting])
def test_what_is_missing_in_an_export_is_an_error(ask: Callable[[], bool]) -> None:
    with pytest.raises(torch.onnx.OnnxExporterError, match="lacks what the module does only in"):
        torch.onnx.export(Swallows(ask).eval(), (X,), dynamo=True, verbose=False)


def test_other_threads_are_warned_of_torch_export() -> None:
    ended = threading.Event()
    thread = threading.Thread(target=ended.wait)
    thread.start()
    try:
        with pytest.warns(torch.onnx.errors.OnnxExporterWarning, match="other threads") as found:
            exported(nn.Linear(3, 2), "torch.export")
        assert len([each for each in found if "other threads" in str(each.message)]) == 1
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            exported(nn.Linear(3, 2))  # the native capture leaves them alone
    finally:
        ended.set()
        thread.join()
