"""A program with several sets of inputs: exported once, run with each set."""

from __future__ import annotations

import copy
import inspect
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import onnxruntime
import torch
from ops import checking
from torch import nn
from torch.utils import _pytree as pytree

Arguments = tuple[Any, ...]


@dataclass(frozen=True)
class Scenario:
    """A program and its inputs; a dict at the end of an input set holds keyword arguments."""

    name: str
    program: Callable[[], nn.Module]
    inputs: Sequence[Arguments]
    dynamic_shapes: Any = None
    strict: bool = False  # captured by TorchDynamo, which keeps regions as subgraphs
    decomposed: bool = False  # after ExportedProgram.run_decompositions
    tolerance: float = 1e-5


class FunctionModule(nn.Module):
    """Wraps a function in a module with the same signature."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.forward = function


@dataclass
class Registry:
    """The scenarios of one file, in order."""

    scenarios: list[Scenario] = field(default_factory=list)

    def __call__(
        self, *inputs: Arguments | torch.Tensor, dynamic: Any = None, **options: Any
    ) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """Registers a function, or a class of modules, under its name.

        Args:
            inputs: Sets of arguments; a tensor alone is a set of one.
            dynamic: torch.onnx.export's dynamic_shapes; sizes that every input set may change.
            options: Other fields of the Scenario.
        """
        sets = [given if isinstance(given, tuple) else (given,) for given in inputs]

        def register(program: Callable[..., Any]) -> Callable[..., Any]:
            def make() -> nn.Module:
                torch.manual_seed(0)
                module: Any = program() if inspect.isclass(program) else FunctionModule(program)
                return module.eval()

            self.scenarios.append(Scenario(program.__name__, make, sets, dynamic, **options))
            return program

        return register


def floats(*shape: int, seed: int = 0) -> torch.Tensor:
    """Returns normally distributed numbers."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def split(arguments: Arguments) -> tuple[Arguments, dict[str, Any]]:
    """Returns positional and keyword arguments."""
    if arguments and isinstance(arguments[-1], dict):
        return arguments[:-1], arguments[-1]
    return arguments, {}


def export(scenario: Scenario) -> torch.onnx.ONNXProgram:
    """Exports for the first set of inputs with the active exporter."""
    args, kwargs = copy.deepcopy(split(scenario.inputs[0]))
    shapes = scenario.dynamic_shapes
    model: Any = scenario.program()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if scenario.strict or scenario.decomposed:
            model = torch.export.export(
                model, args, kwargs, dynamic_shapes=shapes, strict=scenario.strict
            )
            args, kwargs = (), {}
        if scenario.decomposed:
            model = model.run_decompositions()
        program = torch.onnx.export(
            model, args, kwargs=kwargs, dynamo=True, dynamic_shapes=shapes, verbose=False
        )
    assert program is not None
    return program


def feeds(running: onnxruntime.InferenceSession, arguments: Arguments) -> dict[str, Any]:
    """Returns the values of the model's inputs; numbers count if the export made them inputs."""
    names = [argument.name for argument in running.get_inputs()]
    leaves = [leaf for leaf in pytree.tree_leaves(split(arguments)) if leaf is not None]
    tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
    if len(names) != len(tensors):
        tensors = [torch.as_tensor(leaf) for leaf in leaves if not isinstance(leaf, str)]
    assert len(names) == len(tensors), f"{len(names)} inputs for {len(tensors)} arguments"
    return {
        name: checking.ort_value(tensor.detach())
        for name, tensor in zip(names, tensors, strict=True)
    }


@torch.no_grad()
def eager(scenario: Scenario, arguments: Arguments) -> list[torch.Tensor]:
    """Returns PyTorch's results."""
    args, kwargs = copy.deepcopy(split(arguments))
    results = scenario.program()(*args, **kwargs)
    return [
        leaf if isinstance(leaf, torch.Tensor) else torch.tensor(leaf)
        for leaf in pytree.tree_leaves(results)
        if leaf is not None
    ]


def check_numbers(scenario: Scenario, running: onnxruntime.InferenceSession) -> None:
    """Compares each set of inputs with eager: dtype, shape, values."""
    outputs = [output.name for output in running.get_outputs()]
    for arguments in scenario.inputs:
        wanted = eager(scenario, arguments)
        results = running.run_with_ort_values(outputs, feeds(running, arguments))
        assert len(results) == len(wanted), f"{len(results)} results instead of {len(wanted)}"
        for result, expected in zip(results, wanted, strict=True):
            got = torch.from_dlpack(result._ortvalue.to_dlpack())
            if expected.dtype is torch.bool:
                got = got.to(torch.bool)
            reduced = expected.dtype in (torch.bfloat16, torch.float16)
            tolerance = 2e-2 if reduced else scenario.tolerance
            torch.testing.assert_close(
                got, checking.real(expected), rtol=tolerance, atol=tolerance, equal_nan=True
            )


def named_dimensions(scenario: Scenario) -> Iterator[tuple[int, int, str]]:
    """Yields the user's names: position of the tensor, axis, name."""
    if scenario.dynamic_shapes is None:
        return
    args, kwargs = split(scenario.inputs[0])
    parameters = inspect.signature(scenario.program().forward).bind(*args, **kwargs).arguments
    shapes = scenario.dynamic_shapes
    if isinstance(shapes, dict):
        shapes = tuple(shapes.get(name) for name in parameters)
    position = 0
    for value, given in zip(parameters.values(), shapes, strict=True):
        for leaf, axes in _leaves(value, given):
            if leaf is None:
                continue
            for axis, dim in axes.items() if isinstance(axes, dict) else enumerate(axes or ()):
                if isinstance(dim, str):
                    yield position, axis, dim
                elif isinstance(dim, torch.export.Dim):
                    yield position, axis, dim.__name__
            position += 1


def _leaves(value: Any, shapes: Any) -> Iterator[tuple[Any, Any]]:
    if isinstance(value, (list, tuple)):
        for i, element in enumerate(value):
            yield from _leaves(element, shapes[i] if shapes else None)
    elif isinstance(value, dict):
        for key, element in value.items():
            yield from _leaves(element, shapes[key] if shapes else None)
    else:
        yield value, shapes if isinstance(value, torch.Tensor) else None


def check_names(scenario: Scenario, running: onnxruntime.InferenceSession) -> None:
    """Checks that each dynamic dimension of an input has the user's name."""
    inputs = running.get_inputs()
    for position, axis, name in named_dimensions(scenario):
        got = inputs[position].shape[axis]
        assert got == name, f"dimension {axis} of {inputs[position].name} is {got}, not {name}"


def check(scenario: Scenario, *, names: bool = True) -> torch.onnx.ONNXProgram:
    """Exports and runs all checks."""
    program = export(scenario)
    running = checking.session(program)
    check_numbers(scenario, running)
    if names:
        check_names(scenario, running)
    return program
