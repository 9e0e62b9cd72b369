"""torch.export as a route of an export, and captured programs of the user."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import torch

from onnx_native import _context, _library
from onnx_native._refusals import Kind, Refusal, first_line
from onnx_native.captured import _autocast, _captured_check, _specialized, _vmap
from onnx_native.modules import _generators
from onnx_native.program import _origin
from onnx_native.program._program import ONNXProgram
from onnx_native.request import _shapes
from onnx_native.routes import _torch_export
from onnx_native.routes._stages import Stages, Task, conversion_error
from onnx_native.upstream import _capture_errors, _upstream

if TYPE_CHECKING:
    from onnx_native._C import Program


class Route:
    """Exports what torch.export captures.

    Attributes:
        captured: The captured program, once there is one.
    """

    def __init__(self, task: Task, stages: Stages, reason: str | None) -> None:
        self._task = task
        self._stages = stages
        self._reason = reason  # why the native capture does not have the program
        self._error: BaseException | None = None  # of the capture, or of the comparison
        self._questions: list[str] = []  # lines that ask how tensors lie in memory
        self.captured: torch.export.ExportedProgram | None = None

    def export(self) -> ONNXProgram:
        """Exports the program.

        Raises:
            Refusal: torch.export cannot capture it, or captures something else.
            ConversionError: What it captures has no ONNX model.
            TorchExportError: The module itself fails for the example.
        """
        found, notes = self._captured()
        seconds = time.perf_counter() - self._stages.started
        native, names = self._converted(found.program)
        assert self.captured is not None
        guards = _specialized.narrowings(self.captured, names, found.guards)
        guards += _specialized.sizes_above_one(self.captured, names, self._questions)
        dimensions = _specialized.dimensions(self.captured, names)
        program = ONNXProgram(
            native,
            _origin.of_captured(self.captured),
            _origin.CaptureReport(found.strategy, seconds, self._reason, guards, dimensions),
            is_silent=not self._stages.is_verbose,
        )
        program.export_report["warnings"] += [
            *_autocast.warnings_of(self.captured),
            *found.unused,
            *notes,
        ]
        return program

    def error(self) -> tuple[BaseException, BaseException]:
        """Returns the error of a failed capture for the user, and its cause.

        Raises:
            ConversionError: The program was captured, and the conversion knows better why not.
        """
        task, stages = self._task, self._stages
        error = self._error
        assert error is not None
        if self.captured is not None:
            self._converted(self.captured)
            return capture_error(error, stages), error
        own = _captured_check.failure(task.model, task.arguments)
        if own is None:
            return capture_error(error, stages), error
        return _own_error(task, stages, own), own

    def _captured(self) -> tuple[_torch_export.Captured, list[str]]:
        """Returns a program that computes what the module does, and warnings."""
        stages = self._stages
        try:
            found = _torch_export.captured(self._task, stages)
        except _torch_export.CaptureFailedError as failure:
            self._error = failure.error
            is_pinned = _capture_errors.pins_a_size(failure.error)
            kind = Kind.PINNED_SIZE if is_pinned else Kind.OTHER
            raise Refusal(first_line(failure.error), kind) from failure.error
        stages.dump(found.program)
        self.captured = found.program
        try:
            return found, _compared(found.program, self._task, self._questions)
        except _captured_check.DifferenceError as error:
            stages.say("Compare the captured program with the module... ❌")
            self._error = error
            raise Refusal(first_line(error), Kind.DIFFERENCE) from error

    def _converted(self, captured: torch.export.ExportedProgram) -> tuple[Program, dict[str, str]]:
        """Returns the native program and the names of its dynamic sizes."""
        self.captured, names, hints = self._prepared(captured)
        try:
            native = self._stages.convert(
                self._task, self.captured, captured=self.captured, symbol_names=names, hints=hints
            )
        except _upstream.ConversionError as error:
            if getattr(error, "kind", None) == "unsupported operator":  # may have no kernel at all
                raise
            # torch.export captures calls that only eager refuses, such as those of mixed dtypes.
            own = _captured_check.failure(self._task.model, self._task.arguments)
            if own is None:
                raise
            raise _own_error(self._task, self._stages, own) from own
        return native, names

    @_context.one_at_a_time
    def _prepared(
        self, captured: torch.export.ExportedProgram
    ) -> tuple[torch.export.ExportedProgram, dict[str, str], dict[str, int]]:
        """Returns the program without torch.vmap, its names for symbols and the example's sizes."""
        captured = _vmap.unfold(captured)
        specs = self._task.inputs.specs
        names = _shapes.symbol_names(captured, specs) if specs else {}
        try:
            sizes = _specialized.check(captured, names)
        except _library.extension().ExportError as error:
            report = self._stages.write_failure("conversion", captured)
            raise conversion_error(error, report) from error
        return captured, names, {names.get(symbol, symbol): size for symbol, size in sizes.items()}


def check_module(task: Task, stages: Stages, reason: str) -> None:
    """Runs a module that failed while it was recorded; no route has it if it fails alike.

    Raises:
        TorchExportError: It does.
    """
    own = _captured_check.failure(task.model, task.arguments)
    if own is not None and first_line(own) in reason:
        raise _own_error(task, stages, own) from own


def _own_error(task: Task, stages: Stages, own: Exception) -> BaseException:
    """Returns torch.onnx's error for a module that itself fails for the example."""
    who = "module" if isinstance(task.model, torch.nn.Module) else "program"
    text = f"{type(own).__name__}: {own}\nThe {who} itself fails so for the example inputs."
    return _upstream.TorchExportError(text + stages.write_failure("pt_export", None))


def _compared(
    captured: torch.export.ExportedProgram, task: Task, questions: list[str]
) -> list[str]:
    """Compares what torch.export captured with the module; returns a warning, or none."""
    if isinstance(task.model, torch.nn.Module):
        model, arguments = task.model, task.arguments
        note = _captured_check.check(captured, model, arguments, task.output_names, questions)
        return [] if note is None else [note]
    draw = _generators.generator_argument(captured)
    if draw:
        raise _captured_check.DifferenceError(_captured_check.lost_seed(draw))
    return []


def exported_program(task: Task, stages: Stages) -> torch.export.ExportedProgram:
    """Captures a program that was captured natively before.

    Raises:
        TorchExportError: torch.export cannot capture it.
    """
    try:
        with _context.neutral():
            return _torch_export.captured(task, stages).program
    except _torch_export.CaptureFailedError as failure:
        raise capture_error(failure.error, stages) from failure.error


def capture_error(error: BaseException, stages: Stages) -> BaseException:
    """Returns torch.onnx's error for a program that torch.export does not capture, or not right."""
    report = stages.write_failure("pt_export", None)
    if isinstance(error, _captured_check.DifferenceError):
        return _upstream.TorchExportError(f"{error}{report}{stages.refusals()}")
    return _upstream.TorchExportError(
        _upstream.STEP_ONE_ERROR_MESSAGE
        + report
        + _upstream.summarize_exception_stack(error)
        + _hint(error)
        + stages.refusals()
    )


def _hint(error: BaseException) -> str:
    """Explains errors of torch.export whose text does not name the cause."""
    if not _capture_errors.is_of_fake_constant(error):
        return ""
    return (
        "\nhint: torch.export does not record what a program reads or writes through x.data. Write "
        "x.detach() for x.data, and in place of `x.data = y` assign y to the variable itself"
    )
