"""What all routes of an export share: its task, messages, the conversion, reports, its end."""

from __future__ import annotations

import dataclasses
import datetime
import pathlib
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from onnx_native import _library, _options, _refusals, _warnings
from onnx_native.captured import _specialized
from onnx_native.lowerings import _fallbacks
from onnx_native.program import _contents, _progress, _saving
from onnx_native.program._program import ONNXProgram
from onnx_native.report import _report
from onnx_native.request import _inputs, _overlaps, _request
from onnx_native.upstream import _upstream

if TYPE_CHECKING:
    from onnx_native._C import Program

# What an error says of the routes that were taken before the last one.
_REFUSED = {
    "native": "The native capture did not record the program either",
    "TorchScript": "TorchScript cannot stand for the program",
}


@dataclasses.dataclass(frozen=True)
class Task:
    """What torch.onnx.export was asked for.

    Attributes:
        model: The module, function, script or captured program.
        inputs: Its example arguments with their dynamic sizes.
        opset: The opset of the model.
        optimize: Whether the passes run.
        translations: What replaces native lowerings: a table of the user's functions, or None.
        input_names: The user's names for the inputs.
        output_names: The user's names for the outputs.
    """

    model: Any
    inputs: _request.AnyInputs
    opset: int
    optimize: bool
    translations: Any
    input_names: list[str]
    output_names: list[str]

    @property
    def arguments(self) -> _inputs.Inputs:
        """The inputs of what is not a script of the user."""
        assert isinstance(self.inputs, _inputs.Inputs)
        return self.inputs


class Stages:
    """The stages of one export, with its messages and its report.

    Attributes:
        say: Prints a message, unless the user wants none.
        is_verbose: Whether the user wants messages and the progress of long stages.
        dumps: Whether the export writes an ExportedProgram.
        folder: Where reports and the ExportedProgram go.
        timestamp: What their names have in common.
        report: The report, if the user wants one.
        started: When the export started, by time.perf_counter().
        attempts: The routes that were taken.
    """

    def __init__(
        self,
        *,
        verbose: bool | None,
        report: bool = False,
        profile: bool = False,
        dump_exported_program: bool = False,
        artifacts_dir: pathlib.Path = pathlib.Path(),
    ) -> None:
        self.is_verbose = verbose is not False
        self.say = _progress.printer(verbose)
        self.dumps = dump_exported_program
        self.folder = artifacts_dir
        if report or profile or dump_exported_program:
            artifacts_dir.mkdir(parents=True, exist_ok=True)
        self.timestamp = datetime.datetime.now().strftime("%Y-%m-%d_%H-%M-%S-%f")
        self.report = _report.Report(artifacts_dir, self.timestamp) if report else None
        self._profiler = _report.start_profiler() if profile else None
        self.started = time.perf_counter()
        self.attempts: list[_refusals.Attempt] = []

    def attempt(
        self, name: str, route: Callable[..., ONNXProgram], *args: Any, **options: Any
    ) -> ONNXProgram | None:
        """Takes a route; returns None if it refuses, and notes why in `attempts`."""
        start = time.perf_counter()
        attempt = _refusals.Attempt(name)
        self.attempts.append(attempt)
        try:
            return route(*args, **options)
        except _refusals.Refusal as refusal:
            attempt.refusal = refusal
            return None
        finally:
            attempt.seconds = time.perf_counter() - start

    def convert(
        self,
        task: Task,
        source: Any,
        *,
        captured: torch.export.ExportedProgram | None = None,
        is_last: bool = True,
        **names: Any,
    ) -> Program:
        """Builds the native program.

        Args:
            task: The task.
            source: What a route captured: a captured program, a recording or a TorchScript module.
            captured: The captured program, for the report.
            is_last: Whether no other route follows. Only the failure of the last one is reported.
            names: Names and example values of the dynamic sizes.

        Raises:
            ConversionError: It cannot be built.
        """
        options = _options.current()
        self.say("Translate the graph into ONNX...")
        try:
            native = _library.extension().Program(
                source,
                state=options.state,
                metadata=options.metadata,
                functions=options.functions,
                disabled_passes=options.disabled_passes,
                target=options.target,
                weights=options.weights,
                nan=options.nan,
                precision=options.precision,
                keep_io_types=options.keep_io_types,
                float32_modules=options.float32_modules,
                adapters=options.adapters,
                quantization=_library.extension().WeightQuantization(
                    **dataclasses.asdict(options.quantize_weights)
                ),
                fallbacks=_fallbacks.is_enabled(),
                opset=task.opset,
                optimize=task.optimize,
                translations=task.translations,
                input_names=task.input_names,
                output_names=task.output_names,
                **names,
            )
        except Exception as error:
            self.say("Translate the graph into ONNX... ❌")
            if not is_last:
                raise conversion_error(error, "") from error
            if self.report is not None:
                self.report.failed(error)
            report = self.write_failure("conversion", captured) + self.refusals()
            raise conversion_error(error, report) from error
        self.say("Translate the graph into ONNX... ✅")
        if task.optimize:
            self.say("Optimize the ONNX graph... ✅")
        for op, net in native.report()["fallbacks"].items():
            self.say(f"{op} has no native lowering; it was exported by PyTorch's {net}.")
        return native

    def refusals(self) -> str:
        """Says why other routes left the program to the one that failed."""
        return "".join(
            f"\n{_REFUSED[attempt.route]}: {attempt.refusal.text}"
            for attempt in self.attempts
            if attempt.refusal is not None and attempt.route in _REFUSED
        )

    def write_failure(self, postfix: str, captured: torch.export.ExportedProgram | None) -> str:
        """Writes the report of a failure; returns a line that says where it is, if it is wanted."""
        profile = _report.stop_profiler(self._profiler)
        if self.report is None:
            return ""
        path = self.report.write(captured, postfix=postfix, profile=profile)
        return f"\nError report has been saved to '{path}'."

    def dump(self, captured: torch.export.ExportedProgram) -> None:
        """Writes the captured program, if the user wants that."""
        if not self.dumps:
            return
        self.say("Dumping ExportedProgram because `dump_exported_program=True`...")
        path = self.folder / f"onnx_export_{self.timestamp}.pt2"
        try:
            _saving.save_program(captured, path)
        except Exception as error:
            self.say(f"Failed to save ExportedProgram due to an error: {error}")
        else:
            self.say(f"ExportedProgram has been saved to '{path}'.")

    def finish(
        self,
        task: Task,
        program: ONNXProgram,
        captured: torch.export.ExportedProgram | None,
        *,
        verify: bool,
    ) -> None:
        """Warns, verifies and reports at the end of a successful export."""
        report = program.export_report
        written = _contents.of(program).native.updated_inputs
        report["warnings"] += _overlaps.warnings_of(task.inputs.arguments, written)
        report["capture"]["attempts"] = [attempt.as_dict() for attempt in self.attempts]
        messages = [*report["warnings"], *_specialized.warnings_of(report["capture"])]
        if messages:
            _warnings.warn("\n".join(messages))
        profile = _report.stop_profiler(self._profiler)
        if verify:
            self._verify(program)
        if self.report is not None:
            path = self.report.write(captured, program=program, profile=profile)
            self.say(f"Export report has been saved to '{path}'.")
        elif profile is not None:
            self.say("Profile result:")
            self.say(profile)

    def _verify(self, program: ONNXProgram) -> None:
        from onnx_native.verify import _verification

        verification = _verification.Verification(program, self.say)
        verification.run()
        program.export_report["verification"] = verification.outputs
        if self.report is not None:
            self.report.verified(verification)


def conversion_error(error: Exception, report: str) -> _upstream.ConversionError:
    """Wraps an error in PyTorch's exception; copies the fields of an onnx_native.ExportError."""
    is_ours = isinstance(error, _library.extension().ExportError)
    text = f"ExportError {error}" if is_ours else f"{type(error).__name__}: {error}"
    result = _upstream.ConversionError(
        f"Failed to convert the exported program to an ONNX model.\n{text}{report}"
    )
    if is_ours:
        for name, value in vars(error).items():
            setattr(result, name, value)
    return result


def reason_of(error: Exception) -> str:
    """Returns why a route left a program; the cause of a ConversionError says it."""
    cause = error.__cause__ if isinstance(error, _upstream.ConversionError) else None
    return str(error) if cause is None else _refusals.first_line(cause)
