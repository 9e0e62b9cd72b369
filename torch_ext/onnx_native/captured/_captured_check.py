"""Runs a program that torch.export captured once beside its module, for the example.

torch.export is silent where a program decides by what a capture does not have: the text of a
tensor, or an exception of the capture that ``except Exception`` swallows.
"""

from __future__ import annotations

import itertools
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from onnx_native import _context, _library
from onnx_native.modules import (
    _differences,
    _eager,
    _generators,
    _loop_copies,
    _module_state,
    _other_generators,
    _placeholders,
    _tracing,
)
from onnx_native.replay import _replay
from onnx_native.request import _inputs
from onnx_native.upstream import _flags, _upstream

_HINT = (
    "Look for `except` clauses that catch an error of the capture, and for decisions by what a "
    "capture does not have, such as the text of a tensor"
)


class DifferenceError(Exception):
    """The captured program computes something else; the message names the output."""


def check(
    captured: torch.export.ExportedProgram,
    model: torch.nn.Module,
    inputs: _inputs.Inputs,
    output_names: Sequence[str],
    questions: list[str] | None = None,
) -> str | None:
    """Compares a captured program with its module, both in eager, for the example.

    The module runs as while PyTorch exports; if it fails then, as otherwise.

    Args:
        captured: The captured program.
        model: The module.
        inputs: The example.
        output_names: The user's names for the outputs.
        questions: Gets the lines where the module asks how a tensor lies in memory.

    Returns:
        Why there is nothing to compare, if the user should know.

    Raises:
        DifferenceError: They differ by more than rounding.
    """
    eager = _eager.Eager(model, inputs)
    tensors = _upstream.pytree.tree_leaves((inputs.args, inputs.kwargs))
    tensors += [*model.parameters(), *model.buffers()]
    has_elements = not any(_placeholders.lacks_elements(tensor) for tensor in tensors)
    draws = _generators.draws(captured)
    if not has_elements:
        if draws:
            _check_seeds(captured, None)
        return None
    replay = _replay.of_captured(captured)
    if draws:
        _check_seeds(captured, eager)

    others = _other_generators.Draws()

    def expected(*, exporting: bool) -> list[Any]:
        run = _while_exporting if exporting else _otherwise
        with others.watched():
            return run(lambda: eager.outputs(*eager.example), questions)

    runs_in_export = True
    try:
        first = expected(exporting=True)
    except Exception:
        runs_in_export = False
        try:
            first = expected(exporting=False)
        except Exception as error:
            return _not_compared(f"the module fails for the example: {error}")
    try:
        actual = _while_exporting(lambda: _outputs(replay, inputs))
    except Exception as error:
        return _not_compared(f"it fails for the example: {error}")
    try:
        difference = _difference(first, actual, output_names)
    except Exception as error:  # one of them has results without elements
        raise DifferenceError(
            f"The program that torch.export captured cannot be compared with the module: {error}"
        ) from error
    if difference is None:
        return "\n".join(others.warnings()) or None
    try:
        is_repeatable = _difference(expected(exporting=runs_in_export), first, ()) is None
        is_otherwise = _difference(expected(exporting=False), actual, ()) is None
    except Exception as error:
        return _not_compared(f"the module fails for the example: {error}")
    if not is_repeatable:
        note = _not_compared("the module returns something else each time that it runs")
        return "\n".join([note, *others.warnings()])
    if is_otherwise:
        raise DifferenceError(
            "The program that torch.export captured lacks what the module does only in an export "
            f"(torch.onnx.is_in_onnx_export() and the like): for the example inputs {difference}."
        )
    raise DifferenceError(
        f"The program that torch.export captured computes something else than the module: for the "
        f"example inputs {difference}. {_HINT}."
    )


def _check_seeds(captured: torch.export.ExportedProgram, eager: _eager.Eager | None) -> None:
    """Raises DifferenceError if a program draws from a generator that it seeds.

    Without a module that runs, a generator among the arguments of a call is taken for one.
    """
    found: list[str] = []

    def run() -> list[Any]:
        assert eager is not None
        outputs = partial(eager.outputs, *eager.example)
        found.append(_generators.seeded_draw(eager.model, outputs))
        return []

    try:
        _while_exporting(run)
    except Exception:
        found.append(_generators.generator_argument(captured))
    if found[0]:
        raise DifferenceError(lost_seed(found[0]))


def lost_seed(draw: str) -> str:
    """Returns the text of an error about a call that draws random numbers."""
    return (
        f"The program draws random numbers from a generator that it seeds, or makes: {draw}. "
        "torch.export does not capture the seed. Draw the numbers before the export, and keep them "
        "in a buffer."
    )


def failure(model: Any, inputs: _inputs.Inputs) -> Exception | None:
    """Returns the error with which a module fails for the example; None if it does not fail.

    A captured program is run for the inputs that it was captured with.
    """
    if isinstance(model, torch.export.ExportedProgram):
        if model.example_inputs is None:
            return None
        args, kwargs = model.example_inputs
        inputs = _inputs.Inputs(args, kwargs, None, [])
        model = model.module()
    if not isinstance(model, torch.nn.Module):
        return None
    tensors = _upstream.pytree.tree_leaves((inputs.args, inputs.kwargs))
    tensors += [*model.parameters(), *model.buffers()]
    if any(_placeholders.lacks_elements(tensor) for tensor in tensors):
        return None
    args, kwargs = inputs.args, inputs.kwargs or {}

    def with_gradients(*given: Any, **named: Any) -> Any:
        with torch.enable_grad():
            return model(*given, **named)

    found: Exception | None = None
    for function in (model, with_gradients):
        try:
            with _inputs.elements_of(model, inputs), _loop_copies.inserted():
                _otherwise(partial(_module_state.results, function, model, args, kwargs))
            return None
        except Exception as error:
            found = found or error
    return found


def _not_compared(reason: str) -> str:
    return f"The program that torch.export captured was not compared with the module: {reason}"


# Runs.


def _outputs(replay: _replay.Replay, inputs: _inputs.Inputs) -> list[Any]:
    results = replay.results(inputs.args, inputs.kwargs or {})
    return list(filter(_differences.is_value, _upstream.pytree.tree_leaves(results)))


_ABOUT_MEMORY = {
    torch.Tensor.dim_order,
    torch.Tensor.is_contiguous,
    torch.Tensor.storage_offset,
    torch.Tensor.stride,
}


class _Watching(TorchFunctionMode):
    """Notes the lines of the program that ask how a tensor lies in memory.

    A mode also keeps attention layers from computing in another way, in this thread only.
    """

    def __init__(self, questions: list[str] | None) -> None:
        super().__init__()
        self._questions = questions

    def __torch_function__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        if self._questions is not None and function in _ABOUT_MEMORY:
            caller = sys._getframe(1)
            is_parameter = bool(args) and isinstance(args[0], torch.nn.Parameter)
            if not is_parameter:
                path = caller.f_code.co_filename
                line = f"{os.path.basename(path)}:{caller.f_lineno}"
                if not path.startswith(_library.NOT_OF_USER) and line not in self._questions:
                    self._questions.append(line)
        return function(*args, **(kwargs or {}))


@_context.one_at_a_time
def _while_exporting(run: Callable[[], list[Any]], questions: list[str] | None = None) -> list[Any]:
    state = _flags.answers(is_compiling=True, is_exporting=True)
    with state, _tracing.as_in_eager():
        return _otherwise(run, questions)


def _otherwise(run: Callable[[], list[Any]], questions: list[str] | None = None) -> list[Any]:
    with (
        _same_random_numbers(),
        torch.no_grad(),
        _upstream.as_written(),
        _Watching(questions),
    ):
        return run()


@contextmanager
def _same_random_numbers() -> Iterator[None]:
    """Gives each run the same random numbers, and the caller its own back."""
    with _other_generators.kept(), _generators.seeded():
        yield


# Results.


def _difference(expected: list[Any], actual: list[Any], output_names: Sequence[str]) -> str | None:
    """Describes the first result that differs by more than rounding."""
    if len(expected) != len(actual):
        return f"it returns {len(actual)} values, the module {len(expected)}"
    names = itertools.chain(map(repr, output_names), itertools.repeat(""))
    for i, (one, other, name) in enumerate(zip(expected, actual, names, strict=False)):
        text = _difference_of(one, other)
        if text:
            return f"the output {name or i} {text}"
    return None


def _difference_of(one: Any, other: Any) -> str:
    if isinstance(one, torch.Tensor) != isinstance(other, torch.Tensor):
        kinds = [type(each).__name__ for each in (other, one)]
        return f"is a {kinds[0]} instead of a {kinds[1]}"
    if not isinstance(one, torch.Tensor):
        one, other = (torch.tensor(each, dtype=torch.float64) for each in (one, other))
    if one.layout is not torch.strided or other.layout is not torch.strided:
        return ""
    if one.is_quantized and other.is_quantized:
        one, other = one.dequantize(), other.dequantize()
    if one.dtype is other.dtype is torch.float4_e2m1fn_x2:  # PyTorch does not convert pairs
        one, other = one.view(torch.uint8), other.view(torch.uint8)
    found = _differences.measure(one, other)
    if not found.is_significant:
        return ""
    if found.note:
        return f"{found.note} instead of {_description(one)}"
    return f"differs by up to {found.absolute:.3g} (relative: {found.relative:.3g})"


def _description(value: torch.Tensor) -> str:
    return f"{value.dtype} with the shape {list(value.shape)}"
