"""Programs that call functions and modules that torch.jit.trace or torch.jit.script made."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable
from typing import Any

import onnx_native
import pytest
import torch
from models.recording import assert_equal_to_eager, assert_recorded, exported, reason_or_none
from torch import nn

Tensor = torch.Tensor
Function = Callable[..., Any]
X = torch.randn(2, 3, 4, generator=torch.Generator().manual_seed(0))
LARGER = torch.randn(5, 3, 4, generator=torch.Generator().manual_seed(1))
DYNAMIC = ({0: "n"},)

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning"),
]


def traced(function: Any, *args: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.jit.trace(function, args)


class Calling(nn.Module):
    """Calls a program of one tensor."""

    def __init__(self, program: Function) -> None:
        super().__init__()
        self.program = program

    def forward(self, x: Tensor) -> Any:
        return self.program(x)


class Held:
    """What functions use, which changes after they are traced."""

    scale = 2.0
    weight = torch.ones(4)


# Functions whose trace depends on what changes later: for each what is traced.
BEFORE_A_CHANGE: dict[str, Callable[[Held], Function]] = {
    "number": lambda held: lambda x: x * held.scale,
    "tensor": lambda held: lambda x: x * held.weight,
    "number and sizes": lambda held: lambda x: x.reshape(x.shape[0], -1) * held.scale,
    "tensor and sizes": lambda held: lambda x: (x * held.weight).flatten(1)[: x.shape[0]],
    "arithmetic": lambda held: (
        lambda x: x.reshape(x.shape[0] * x.shape[1], -1) / (x.shape[0] // 2 * held.scale + 1)
    ),
    "numel": lambda held: lambda x: x.sum() * held.scale / x.numel(),
    "made": lambda held: lambda x: torch.zeros(x.shape) + held.scale + x,
    "several": lambda held: (
        lambda x: (*x.split([1, 2], dim=1), x.max(0)[1], {"a": x * x.shape[0]}["a"] * held.scale)
    ),
    "options": lambda held: (
        lambda x: x.clamp(min=-held.scale) + torch.arange(x.shape[0])[:, None, None]
    ),
    "rank": lambda held: lambda x: x.sum(x.dim() - 1) * held.scale,
    "length": lambda held: lambda x: x * len(x) * held.scale,
}


@pytest.mark.parametrize("name", BEFORE_A_CHANGE)
@pytest.mark.parametrize("calls", ["function", "twice"])
def test_a_trace_is_what_was_traced(name: str, calls: str) -> None:
    held = Held()
    function = traced(BEFORE_A_CHANGE[name](held), X)
    if calls == "twice":
        inner = function
        function = traced(lambda x: inner(x), X)
    held.scale, held.weight = 5.0, torch.arange(4.0)
    assert_recorded(Calling(lambda x: function(x)), DYNAMIC, (X,), (LARGER,))


@pytest.mark.parametrize("name", ["number", "tensor and sizes"])
def test_torch_export_is_refused_where_it_exports_other_values(name: str) -> None:
    held = Held()
    function = traced(BEFORE_A_CHANGE[name](held), X)
    module = Calling(lambda x: function(x) + 1)
    with onnx_native.options(capture="torch.export"):
        program = torch.onnx.export(module, (X,), dynamo=True, verbose=False)
        assert_equal_to_eager(program, module, (X,))
        held.scale, held.weight = 5.0, torch.arange(4.0)
        with pytest.raises(torch.onnx.OnnxExporterError, match="computes something else"):
            torch.onnx.export(module, (X,), dynamo=True, verbose=False)


class Scaling(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scale = 2.0
        self.layer = nn.Linear(4, 2)

    def forward(self, x: Tensor) -> Any:
        return self.layer(x) * self.scale


class TracedInInit(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scale = 2.0
        self.function = traced(lambda x: x.flatten(1)[: x.shape[0]] * self.scale, X)
        self.scale = 5.0

    def forward(self, x: Tensor) -> Any:
        return self.function(x) + self.scale


class TracedModules(nn.Module):
    """Calls traced modules whose sources change."""

    def __init__(self, *, is_hidden: bool) -> None:
        super().__init__()
        self.inner = Scaling()
        layer = traced(self.inner.layer, X)
        whole = traced(self.inner, X)
        self.traced: Any = [layer, whole] if is_hidden else nn.ModuleList([layer, whole])
        self.inner.scale = 5.0
        with torch.no_grad():
            self.inner.layer.weight.add_(1)
        self.inner.layer.bias = nn.Parameter(torch.ones(2))

    def forward(self, x: Tensor) -> Any:
        return [function(x) for function in self.traced], self.inner(x)


@pytest.mark.parametrize(
    "make",
    [
        TracedInInit,
        lambda: TracedModules(is_hidden=False),
        lambda: TracedModules(is_hidden=True),
    ],
    ids=["function", "modules", "hidden modules"],
)
def test_modules_that_change_after_they_trace(make: Callable[[], nn.Module]) -> None:
    assert_recorded(make(), DYNAMIC, (X,), (LARGER,))


# Traces in forward.

LAYER = nn.Linear(4, 2)


def of_a_function(x: Tensor) -> Any:
    return torch.jit.trace(lambda y: y.reshape(y.shape[0], -1) * y.shape[0], x)(x + 1)


def of_a_layer(x: Tensor) -> Any:
    return torch.jit.trace(LAYER, x)(x)


def of_a_sequence(x: Tensor) -> Any:
    layers = nn.Sequential(nn.Flatten(), nn.ReLU())
    return torch.jit.trace(layers, x)(x)


def of_parts(x: Tensor) -> Any:
    return torch.jit.trace(lambda y: y[:, 0][: y.shape[0]] + y.narrow(0, 0, y.size(0))[:, 1], x)(x)


def before_a_change(x: Tensor) -> Any:
    factor = 2.0
    function = torch.jit.trace(lambda y: y.flatten(1)[: y.shape[0]] * factor, x)
    factor = 5.0
    return function(x) + factor


def in_place(x: Tensor) -> Any:
    y = x * 2
    torch.jit.trace(lambda z: z.add_(1), x)(y)
    return y


def by_name(x: Tensor) -> Any:
    return torch.jit.trace(lambda y, z: (y - z).reshape(y.shape[0], -1), (x, x))(z=x * 2, y=x)


@pytest.mark.parametrize(
    "program",
    [of_a_function, of_a_layer, of_a_sequence, of_parts, before_a_change, in_place, by_name],
)
def test_traces_in_forward(program: Function) -> None:
    assert_recorded(Calling(program), DYNAMIC, (X,), (LARGER,))


def by_elements(x: Tensor) -> Any:
    return torch.jit.trace(lambda y: y * 2 if y.sum() > 0 else y * 3, x)(x)


def with_options(x: Tensor) -> Any:
    return torch.jit.trace(lambda y: y * 2, x, check_trace=False)(x)


def kept_elements(x: Tensor) -> Any:
    return torch.jit.trace(lambda y: y * y.sum(0)[0].tolist()[0], x)(x)


def kept_array(x: Tensor) -> Any:
    return torch.jit.trace(lambda y: y + torch.from_numpy(y.numpy() * 2), x)(x)


COUNTER = itertools.count()


def counted(x: Tensor) -> Any:
    return torch.jit.trace(lambda y: y * next(COUNTER), x)(x)


def looped(x: Tensor) -> Any:
    def add_each(y: Tensor) -> Tensor:
        for i in range(y.shape[0]):
            y = y + i
        return y

    return torch.jit.trace(add_each, x)(x)


def with_strides(x: Tensor) -> Any:
    y = x.transpose(0, 2)
    return torch.jit.trace(lambda z: z * z.stride(2) + z.stride(0), y)(y)


@pytest.mark.parametrize("program", [looped, with_strides])
def test_traces_that_depend_on_dynamic_sizes_are_refused(program: Function) -> None:
    module = Calling(program)
    assert_recorded(module, None, (X,))
    reason = reason_or_none(module, (X,), ({0: "n", 2: "m"},))
    assert "a function whose traces differ" in (reason or "")


def with_a_recorded_tensor(x: Tensor) -> Any:
    z = x * 2
    return torch.jit.trace(lambda y: y * z, x)(x)


@pytest.mark.parametrize(
    ("program", "reason"),
    [
        (by_elements, "might cause the trace to be incorrect"),
        (kept_elements, "might cause the trace to be incorrect"),
        (counted, "a function whose traces differ"),
        (kept_array, "might cause the trace to be incorrect"),
        (with_a_recorded_tensor, "got a tensor that onnx_native recorded"),
        (with_options, "with options"),
    ],
)
def test_traces_that_are_refused(program: Function, reason: str) -> None:
    assert reason in (reason_or_none(Calling(program), (X,), None) or "")


def test_a_trace_keeps_the_way_that_it_took() -> None:
    function = traced(lambda x: x * 2 if x.sum() > 0 else x * 3, torch.ones(2, 3, 4))
    assert_recorded(Calling(lambda x: function(-x.abs())), DYNAMIC, (X,), (LARGER,))


# Scripted functions.


@torch.jit.script
def other_in_a_script(x: Tensor) -> Tensor:
    if torch.jit.is_scripting():
        return x * 2
    return x * 3


@torch.jit.script
def other_sizes_in_a_script(x: Tensor) -> Tensor:
    if torch.jit.is_scripting():
        return x.reshape(x.size(0), -1) * 2
    return x.reshape(x.size(0), -1) * 3


@torch.jit.script
def of_sizes(x: Tensor) -> Tensor:
    y = x.reshape(x.size(0), -1)
    for i in range(3):
        y = y + i
    return y * x.size(0) if x.size(0) > 1 else y


def test_scripted_functions() -> None:
    assert_recorded(Calling(lambda x: other_in_a_script(x) + 1), DYNAMIC, (X,), (LARGER,))
    assert_recorded(Calling(lambda x: of_sizes(x) + 1), DYNAMIC, (X,), (LARGER,))


def test_a_script_that_is_not_like_its_source_is_refused() -> None:
    module = Calling(lambda x: other_sizes_in_a_script(x) + 1)
    reason = reason_or_none(module, (X,), DYNAMIC)
    assert "a scripted function computes something else than its source" in (reason or "")
    with pytest.raises(torch.onnx.OnnxExporterError, match="computes something else"):
        exported(module, (X,), DYNAMIC)
