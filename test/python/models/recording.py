"""Exports through the native capture, and what its tests share."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import onnx
import onnx_native
import torch
from onnx_native.recording import _capture, _recorder
from onnx_native.request import _inputs, _request
from onnx_native.routes import _torch_export
from torch import nn

from models import running

Example = tuple[Any, ...]


def exported(module: nn.Module, args: Example, dynamic_shapes: Any = None, **kwargs: Any) -> Any:
    with onnx_native.options(capture="native"):
        program = torch.onnx.export(
            module, args, kwargs=kwargs, dynamo=True, dynamic_shapes=dynamic_shapes, verbose=False
        )
    assert program is not None
    return program


class LeftToTorchExport(Exception):  # noqa: N818
    """The native capture leaves the program to torch.export."""


@contextmanager
def only_native() -> Iterator[None]:
    """Captures natively, or raises LeftToTorchExport."""
    with (
        onnx_native.options(capture="native"),
        mock.patch.object(_torch_export, "captured", side_effect=LeftToTorchExport),
    ):
        yield


def assert_native(program: Any) -> None:
    found = program.export_report["capture"]
    assert (found["by"], found["reason"]) == ("native", None)


def assert_equal_to_eager(program: Any, module: nn.Module, *examples: Example) -> None:
    onnx.checker.check_model(program.model_proto, full_check=True)
    for example in examples:
        with torch.no_grad():
            expected = torch.utils._pytree.tree_leaves(module(*copy.deepcopy(example)))
        got = program(*example)
        running.assert_same(got, [torch.as_tensor(value) for value in expected])


def assert_recorded(module: nn.Module, dynamic_shapes: Any, *examples: Example) -> Any:
    """Exports the first example natively, and compares all with eager; returns the program."""
    program = exported(module, examples[0], dynamic_shapes)
    assert_native(program)
    assert_equal_to_eager(program, module, *examples)
    return program


X = torch.randn(2, 5, 4, generator=torch.Generator().manual_seed(0))
LARGER = torch.randn(3, 7, 4, generator=torch.Generator().manual_seed(1))
SINGLE = torch.randn(1, 6, 4, generator=torch.Generator().manual_seed(2))
DYNAMIC = ({0: "batch", 1: "n"},)
EXAMPLES = ((X,), (LARGER,), (SINGLE,))

Function = Callable[[torch.Tensor], Any]


def function_id(function: Function) -> str:
    return function.__name__


def reason_or_none(module: nn.Module, args: Any, dynamic_shapes: Any) -> str | None:
    """Why the recorder steps aside; None if it does not."""
    inputs = _request.Request(module, args, None, dynamic_shapes, None, None, None).inputs()
    assert isinstance(inputs, _inputs.Inputs)
    try:
        _capture.capture(module, inputs)
    except _recorder.StepAsideError as error:
        return str(error)
    return None


def reason_of(module: nn.Module, args: Example, dynamic_shapes: Any) -> str:
    """Why the recorder steps aside; fails if it does not."""
    reason = reason_or_none(module, args, dynamic_shapes)
    assert reason is not None
    return reason


class Caching(nn.Module):
    """Caches something in the first call."""

    def __init__(self, make: Function) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(4) * 2)
        self.make = make
        self.cache: dict[str, torch.Tensor] = {}

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if "x" not in self.cache:
            self.cache["x"] = self.weight * self.make(x)
        return x + self.cache["x"]


def derivative(x: torch.Tensor) -> Any:
    """Steps aside; torch.export captures it."""
    return torch.func.jvp(torch.sin, (x,), (torch.ones_like(x),))[1]
