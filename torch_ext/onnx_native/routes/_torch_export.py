"""Captures a program by torch.export, in PyTorch's own ways, without its traps."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any

import torch

from onnx_native import _context
from onnx_native.captured import _recurrent, _specialized
from onnx_native.lowerings import _autograd_functions
from onnx_native.modules import _generators, _loop_copies, _module_state
from onnx_native.program import _progress
from onnx_native.request import _checks, _declarations, _inputs
from onnx_native.routes._stages import Stages, Task
from onnx_native.upstream import _upstream


class CaptureFailedError(Exception):
    """torch.export cannot capture the program; `error` says why."""

    def __init__(self, error: BaseException) -> None:
        super().__init__(str(error))
        self.error = error


@dataclasses.dataclass(frozen=True)
class Captured:
    """A program that torch.export captured, or that the user gave.

    Attributes:
        program: The captured program.
        strategy: PyTorch's name for the way it was captured; None for a program of the user.
        guards: The conditions that the capture decided, with their lines.
        unused: Symbolic functions that have no effect.
    """

    program: torch.export.ExportedProgram
    strategy: str | None = None
    guards: Mapping[Any, Any] = dataclasses.field(default_factory=dict)
    unused: list[str] = dataclasses.field(default_factory=list)


@_context.one_at_a_time
def captured(task: Task, stages: Stages) -> Captured:
    """Returns the captured program.

    Raises:
        CaptureFailedError: torch.export cannot capture it.
    """
    model = task.model
    if isinstance(model, torch.export.ExportedProgram):
        return Captured(model)
    inputs = task.arguments
    _checks.other_threads()
    with ExitStack() as stack:
        # A capture may leave its tensors in the module, and writes to those that it takes for
        # constants.
        stack.enter_context(_module_state.unchanged(model, is_eager=False))
        stack.enter_context(torch.random.fork_rng(devices=[]))  # the first failure would change it
        stack.enter_context(_generators.marked(model))
        stack.enter_context(_inputs.elements_of(model, inputs))
        stack.enter_context(_inputs.without_marks((inputs.args, inputs.kwargs)))
        stack.enter_context(_declarations.kept_dynamic())
        guards = stack.enter_context(_specialized.recorded_lines())
        unused = stack.enter_context(_autograd_functions.recorded(task.opset, only_domains=True))
        if inputs.dynamic_shapes:
            stack.enter_context(_recurrent.loops())
        stack.enter_context(_loop_copies.inserted(always=False))
        with _context.device_of_caller():
            program, strategy = _by_strategies(model, inputs, stages)
        return Captured(program, strategy, guards, unused)


def _by_strategies(
    model: Any, inputs: _inputs.Inputs, stages: Stages
) -> tuple[torch.export.ExportedProgram, str]:
    """Tries PyTorch's ways to capture a program; returns the program and the way."""
    failed: list[BaseException] = []
    args, kwargs = _inputs.distinct(model, (inputs.args, inputs.kwargs))
    for strategy_class in _upstream.CAPTURE_STRATEGIES:
        strategy = strategy_class(
            verbose=stages.is_verbose,
            dump=stages.dumps,
            artifacts_dir=stages.folder,
            timestamp=stages.timestamp,
        )
        _upstream.print_by(strategy, stages.say)
        with (
            _progress.stage("Capturing the program", shown=stages.is_verbose),
            _upstream.leaving_transforms(),
        ):
            result = strategy(model, args, kwargs, dynamic_shapes=inputs.dynamic_shapes)
        if stages.report is not None:
            stages.report.captured(result)
        if result.exported_program is not None:
            return result.exported_program, result.strategy
        if result.exception is not None:
            failed.append(result.exception)
    raise CaptureFailedError(failed[0])
