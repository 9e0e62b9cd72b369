"""Implements torch.onnx.export: arguments, capture, native export, saving."""

import datetime
import functools
import io
import os
import pathlib
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from typing import Any

import torch

from onnx_native import (
    _arguments,
    _autocast,
    _autograd_functions,
    _capture,
    _captured_check,
    _checks,
    _context,
    _declarations,
    _eager,
    _fallbacks,
    _generators,
    _inputs,
    _jit,
    _library,
    _loop_copies,
    _module_changes,
    _module_state,
    _options,
    _progress,
    _recurrent,
    _replay,
    _report,
    _request,
    _saving,
    _scripting,
    _shapes,
    _specialized,
    _symbolics,
    _upstream,
    _vmap,
)
from onnx_native._program import ONNXProgram


def export_compat(
    model: Any,
    args: tuple[Any, ...],
    f: str | os.PathLike | io.BytesIO | None = None,
    *,
    kwargs: dict[str, Any] | None = None,
    export_params: bool = True,
    verbose: bool | None = None,
    input_names: Sequence[str] | None = None,
    output_names: Sequence[str] | None = None,
    opset_version: int | None = None,
    custom_translation_table: dict[Callable, Callable] | None = None,
    dynamic_axes: Mapping[str, Mapping[int, str]] | Mapping[str, Sequence[int]] | None = None,
    dynamic_shapes: dict[str, Any] | tuple[Any, ...] | list[Any] | None = None,
    keep_initializers_as_inputs: bool = False,
    external_data: bool = True,
    report: bool = False,
    optimize: bool = True,
    verify: bool = False,
    profile: bool = False,
    dump_exported_program: bool = False,
    artifacts_dir: str | os.PathLike = ".",
) -> torch.onnx.ONNXProgram:
    """Replaces PyTorch's function of the same name: same arguments, same result."""
    _checks.training_mode(model)
    _checks.ignored_arguments(model)
    _checks.destination(f)
    opset = _checks.opset_of(opset_version)
    request = _request.Request(
        model, args, kwargs, dynamic_shapes, dynamic_axes, input_names, output_names
    )
    inputs = request.inputs()
    program = _Exporter(
        verbose=verbose,
        report=report,
        profile=profile,
        dump_exported_program=dump_exported_program,
        artifacts_dir=pathlib.Path(artifacts_dir),
    ).export(
        request.model,
        inputs,
        verify=verify,
        opset=opset,
        optimize=optimize,
        translations=_translations(custom_translation_table, opset),
        input_names=request.input_names,
        output_names=request.output_names,
    )
    if isinstance(inputs, _inputs.Inputs) and not isinstance(
        request.model, torch.export.ExportedProgram
    ):
        program.called_like(_arguments.Arrangement(request.model, inputs.args, inputs.kwargs))
    _save(
        program,
        f,
        include_initializers=export_params,
        keep_initializers_as_inputs=keep_initializers_as_inputs,
        external_data=external_data,
    )
    return program


def _translations(table: dict[Callable, Callable] | None, opset: int) -> Any:
    if table is None:
        symbolics = _symbolics.Table(opset)
        _symbolics.warn_of_unused(symbolics)
        return symbolics if symbolics.lowerings else None
    from onnx_native import _translation

    return _translation.Table(table, opset)


def _save(program: ONNXProgram, f: Any, **options: Any) -> None:
    if f is not None and _checks.is_stream(f):
        kind = "BytesIO" if isinstance(f, io.BytesIO) else "file"
        warnings.warn(
            f"Saving ONNX model to a {kind} object is deprecated. Please use a file path instead.",
            DeprecationWarning,
            stacklevel=4,
        )
        f.write(program.model_proto.SerializeToString())
    elif f is not None:
        start = time.perf_counter()
        program.save(f, **options)
        program.export_report["seconds"]["save"] = time.perf_counter() - start


class _Exporter:
    """One export: its messages, its report and its stages."""

    def __init__(
        self,
        *,
        verbose: bool | None,
        report: bool,
        profile: bool,
        dump_exported_program: bool,
        artifacts_dir: pathlib.Path,
    ) -> None:
        self._verbose = verbose is not False
        self._print = _progress.printer(verbose)
        self._dump = dump_exported_program
        self._folder = artifacts_dir
        if report or profile or dump_exported_program:
            artifacts_dir.mkdir(parents=True, exist_ok=True)
        timestamp = datetime.datetime.now().strftime("%Y-%m-%d_%H-%M-%S-%f")
        self._timestamp = timestamp
        self._guards: Mapping[Any, Any] = {}  # of torch.export's capture, with their lines
        self._report = _report.Report(artifacts_dir, timestamp) if report else None
        self._profiler = _report.start_profiler() if profile else None
        self._unused: list[str] = []  # symbolic functions that have no effect
        self._aside: str | None = None  # why the native capture did not record the program
        self._not_scripted: str | None = None  # why TorchScript cannot stand for it

    def export(
        self, model: Any, inputs: _request.AnyInputs, *, verify: bool, **options: Any
    ) -> ONNXProgram:
        """Exports the program; `options` are passed on to the native program."""
        self._opset: int = options["opset"]
        start = time.perf_counter()
        program, reason = self._export_natively(model, inputs, verify=verify, **options)
        if program is not None:
            program = self._with_loops(program, model, inputs, start, **options) or program
            self._finish(program, None, verify)
            return program
        self._aside = reason
        program, captured = self._export_captured(model, inputs, reason, verify=verify, **options)
        self._finish(program, captured, verify)
        return program

    def _with_loops(
        self,
        program: ONNXProgram,
        model: Any,
        inputs: _request.AnyInputs,
        start: float,
        **options: Any,
    ) -> ONNXProgram | None:
        """Returns the program as TorchScript if its loops were unrolled for a dynamic size."""
        loops = [
            guard
            for guard in program.export_report["capture"]["guards"]
            if "loop" in guard.get("note", "")
        ]
        if not loops or isinstance(inputs, _jit.Inputs):
            return None
        self._aside = "\n".join(
            f"a loop needs {guard['condition']} ({guard['source']})" for guard in loops
        )
        scripted = self._export_scripted(model, inputs, start, self._aside, **options)
        self._aside = None
        return scripted

    def _export_captured(
        self, model: Any, inputs: _request.AnyInputs, reason: str | None, **options: Any
    ) -> tuple[ONNXProgram, torch.export.ExportedProgram | None]:
        """Exports what torch.export captures, or TorchScript; returns the captured program too."""
        start = time.perf_counter()
        if isinstance(inputs, _jit.Inputs):
            return self._export_script(model, inputs, start, **options), None
        if reason is not None and _scripting.is_called_for(reason):
            scripted = self._export_scripted(model, inputs, start, reason, **options)
            if scripted is not None:
                return scripted, None
            forked, _ = self._export_natively(model, inputs, forks=True, **options)
            if forked is not None:
                return forked, None
        difference: BaseException | None = None
        note: list[str] = []
        try:
            captured, strategy = self._captured(model, inputs)
            self._dump_program(captured)
            note = self._compared(captured, model, inputs, options["output_names"])
        except _CaptureFailedError as failure:
            scripted = None
            if not _scripting.pins_a_size(failure.error):
                reason = f"{reason}\n{_scripting.first_line(failure.error)}"
                scripted = self._export_scripted(model, inputs, start, reason, **options)
            if scripted is not None:
                return scripted, None
            if not isinstance(failure.error, _captured_check.DifferenceError):
                error, cause = self._failure(model, inputs, failure.error)
                raise error from cause
            difference = failure.error
        capture_seconds = time.perf_counter() - start
        captured, names, hints = self._prepared(captured, inputs)
        native = self._convert(captured, captured, symbol_names=names, hints=hints, **options)
        if difference is not None:  # and the conversion does not know better why
            raise self._capture_error(difference) from difference
        program = ONNXProgram(native, captured)
        guards = _specialized.narrowings(captured, names, self._guards)
        dimensions = _specialized.dimensions(captured, names)
        program.captured_with(strategy, capture_seconds, reason, guards, dimensions)
        program.is_silent = not self._verbose
        program.export_report["warnings"] += [
            *_autocast.warnings_of(captured),
            *self._unused,
            *note,
        ]
        return program, captured

    def _export_scripted(
        self, model: Any, inputs: _inputs.Inputs, start: float, reason: str, **options: Any
    ) -> ONNXProgram | None:
        """Exports a module that torch.export cannot capture as TorchScript, if that is possible."""
        if self._aside is None or self._dump or self._not_scripted is not None:
            return None
        if not inputs.fit or inputs.constants or inputs.scalars:
            return None
        try:
            script = _context.one_at_a_time(_scripting.scripted)(
                model, inputs.args, inputs.kwargs, inputs.specs
            )
            self._print("Obtain model graph with `torch.jit.script(...)`... ✅")
            program = self._export_script(
                script.module, script.inputs, start, reason, is_last=False, **options
            )
            script.check_dtypes(program.output_dtypes)
            program.eager = _eager.Eager(model, inputs)
            return program
        except (_scripting.ScriptingError, _upstream.ConversionError) as error:
            self._not_scripted = _reason_of(error)
            self._print(
                f"Obtain model graph with `torch.jit.script(...)`... ❌: {self._not_scripted}"
            )
            return None

    def _export_script(
        self,
        script: Any,
        inputs: _jit.Inputs,
        start: float,
        reason: str | None = None,
        **options: Any,
    ) -> ONNXProgram:
        capture_seconds = time.perf_counter() - start
        source = (script, inputs.specs, "forward")
        native = self._convert(None, source, hints=inputs.hints, **options)
        program = ONNXProgram(native, None, inputs.flat)
        arguments = _inputs.Inputs(tuple(inputs.arguments), {}, None, [])
        program.eager = _eager.Eager(script, arguments)
        program.recorded = functools.partial(_replay.of_script, source, inputs)
        program.captured_with("TorchScript", capture_seconds, reason)
        program.is_silent = not self._verbose
        return program

    def _export_natively(
        self, model: Any, inputs: _request.AnyInputs, *, forks: bool = False, **options: Any
    ) -> tuple[ONNXProgram | None, str | None]:
        """Returns the program of a native capture, or why there is none although asked for."""
        if _options.current().capture == "torch.export" or isinstance(inputs, _jit.Inputs):
            return None, None
        if isinstance(model, torch.export.ExportedProgram):
            return None, None
        start = time.perf_counter()
        restore_numbers = _module_state.restore_numbers(model)
        try:
            if self._dump:
                raise _capture.StepAsideError("the export writes an ExportedProgram")
            if options["translations"] is not None and options["translations"].is_of_user:
                raise _capture.StepAsideError("a translation table needs PyTorch's decompositions")
            recorded = _context.one_at_a_time(_capture.capture)(
                model, inputs, self._opset, forks=forks
            )
            self._print("Obtain model graph with the native capture... ✅")
            seconds = time.perf_counter() - start
            text = "" if self._report is None else recorded.native.text()
            native = self._convert(
                None,
                recorded.native,
                is_last=False,
                hints=recorded.sizes.example,
                **options,
            )
            if self._report is not None:
                self._report.recorded(text)
        except (_capture.StepAsideError, _upstream.ConversionError) as error:
            reason = _reason_of(error)
            self._print(f"Obtain model graph with the native capture... ❌: {reason}")
            restore_numbers()
            return None, reason
        program = ONNXProgram(
            native,
            None,
            recorded.flatten,
            recorded.tied,
            capture=functools.partial(self._exported_program, model, inputs),
        )
        program.eager = _eager.Eager(model, inputs, recorded.sizes)
        program.recorded = functools.partial(
            _replay.of_recording, model, inputs, self._opset, forks=forks
        )
        program.captured_with(
            "native", seconds, guards=recorded.guards, dimensions=recorded.dimensions
        )
        program.is_silent = not self._verbose
        program.export_report["known_elements"] = recorded.known
        program.export_report["warnings"] += recorded.warnings
        for name, source in recorded.known:
            self._print(f"The model is valid for the present elements of {name}: {source}")
        return program, None

    def _exported_program(self, model: Any, inputs: _inputs.Inputs) -> torch.export.ExportedProgram:
        """Captures a program by torch.export that was captured natively before."""
        try:
            with _context.neutral():
                captured: torch.export.ExportedProgram = self._captured(model, inputs)[0]
        except _CaptureFailedError as failure:
            raise self._capture_error(failure.error) from failure.error
        return captured

    @_context.one_at_a_time
    def _captured(self, model: Any, inputs: _inputs.Inputs) -> tuple[Any, str | None]:
        """Returns the captured program and the capture strategy."""
        if isinstance(model, torch.export.ExportedProgram):
            return model, None
        _checks.other_threads()
        with ExitStack() as stack:
            if isinstance(model, torch.nn.Module):  # in which a capture may leave its tensors
                stack.enter_context(_module_changes.restored(model))
            stack.enter_context(_generators.marked(model))
            stack.enter_context(_inputs.elements_of(model, inputs))
            stack.enter_context(_inputs.without_marks((inputs.args, inputs.kwargs)))
            stack.enter_context(_declarations.kept_dynamic())
            self._guards = stack.enter_context(_specialized.recorded_lines())
            self._unused = stack.enter_context(
                _autograd_functions.recorded(self._opset, only_domains=True)
            )
            if inputs.dynamic_shapes:
                stack.enter_context(_recurrent.loops())
            return self._capture(model, inputs)

    def _compared(
        self,
        captured: torch.export.ExportedProgram,
        model: Any,
        inputs: _inputs.Inputs,
        output_names: Sequence[str],
    ) -> list[str]:
        """Compares what torch.export captured with the module; returns a warning, or none."""
        if not isinstance(model, torch.nn.Module):
            draw = _generators.generator_argument(captured)
            if draw:
                error = _captured_check.DifferenceError(_captured_check.lost_seed(draw))
                raise _CaptureFailedError(error)
            return []
        try:
            note = _captured_check.check(captured, model, inputs, output_names)
        except _captured_check.DifferenceError as error:
            self._print("Compare the captured program with the module... ❌")
            raise _CaptureFailedError(error) from error
        return [] if note is None else [note]

    @_context.one_at_a_time
    def _prepared(
        self, captured: torch.export.ExportedProgram, inputs: _inputs.Inputs
    ) -> tuple[torch.export.ExportedProgram, dict[str, str], dict[str, int]]:
        """Returns the program without torch.vmap, its names for symbols and the example's sizes."""
        captured = _vmap.unfold(captured)
        names = _shapes.symbol_names(captured, inputs.specs) if inputs.specs else {}
        return captured, names, self._example_sizes(captured, names)

    def _finish(
        self, program: ONNXProgram, captured: torch.export.ExportedProgram | None, verify: bool
    ) -> None:
        report = program.export_report
        messages = [*report["warnings"], *_specialized.warnings_of(report["capture"])]
        if messages:
            warnings.warn("\n".join(messages), torch.onnx.errors.OnnxExporterWarning, stacklevel=7)
        profile = _report.stop_profiler(self._profiler)
        if verify:
            self._verify(program)
        if self._report is not None:
            path = self._report.write(captured, program=program, profile=profile)
            self._print(f"Export report has been saved to '{path}'.")
        elif profile is not None:
            self._print("Profile result:")
            self._print(profile)

    @_loop_copies.inserted(always=False)
    def _capture(
        self, model: Any, inputs: _inputs.Inputs
    ) -> tuple[torch.export.ExportedProgram, str]:
        failed: list[Any] = []
        for strategy_class in _upstream.CAPTURE_STRATEGIES:
            strategy = strategy_class(
                verbose=self._verbose,
                dump=self._dump,
                artifacts_dir=self._folder,
                timestamp=self._timestamp,
            )
            _upstream.print_by(strategy, self._print)
            with _progress.stage("Capturing the program", shown=self._verbose):
                result = strategy(
                    model, inputs.args, inputs.kwargs, dynamic_shapes=inputs.dynamic_shapes
                )
            failed += [result] if result.exception is not None else []
            if self._report is not None:
                self._report.captured(result)
            if result.exported_program is not None:
                return result.exported_program, result.strategy
        raise _CaptureFailedError(failed[0].exception)

    def _failure(
        self, model: Any, inputs: _inputs.Inputs, error: BaseException
    ) -> tuple[BaseException, BaseException]:
        """Returns the error of a capture, or eager's if the module itself fails; and its cause."""
        own = _captured_check.failure(model, inputs)
        if own is None:
            return self._capture_error(error), error
        text = f"{type(own).__name__}: {own}\nThe module itself fails so for the example inputs."
        return _upstream.TorchExportError(text + self._failure_report("pt_export", None)), own

    def _capture_error(self, error: BaseException) -> BaseException:
        if isinstance(error, _captured_check.DifferenceError):
            report = self._failure_report("pt_export", None)
            return _upstream.TorchExportError(f"{error}{report}{self._aside_text()}")
        return _upstream.TorchExportError(
            _upstream.STEP_ONE_ERROR_MESSAGE
            + self._failure_report("pt_export", None)
            + _upstream.summarize_exception_stack(error)
            + _hint(error)
            + self._aside_text()
        )

    def _aside_text(self) -> str:
        """Says why other captures left the program to torch.export, which failed."""
        text = ""
        if self._aside is not None:
            text = f"\nThe native capture did not record the program either: {self._aside}"
        if self._not_scripted is not None:
            text += f"\nTorchScript cannot stand for the program: {self._not_scripted}"
        return text

    def _example_sizes(
        self, captured: torch.export.ExportedProgram, names: dict[str, str]
    ) -> dict[str, int]:
        """Returns the example's sizes by name; raises if the capture specialized on one."""
        try:
            hints = _specialized.check(captured, names)
        except _library.extension().ExportError as error:
            raise _conversion_error(error, self._failure_report("conversion", captured)) from error
        return {names.get(symbol, symbol): size for symbol, size in hints.items()}

    def _convert(
        self,
        captured: torch.export.ExportedProgram | None,
        source: Any,
        *,
        is_last: bool = True,
        **options: Any,
    ) -> Any:
        """Builds the native program from `source`: a captured program or a TorchScript module.

        Only a failure of the last attempt is reported.
        """
        self._print("Translate the graph into ONNX...")
        try:
            native = _library.extension().Program(
                source,
                state=_options.current().state,
                metadata=_options.current().metadata,
                functions=_options.current().functions,
                disabled_passes=_options.current().disabled_passes,
                target=_options.current().target,
                weights=_options.current().weights,
                nan=_options.current().nan,
                fallbacks=_fallbacks.is_enabled(),
                **options,
            )
        except Exception as error:
            self._print("Translate the graph into ONNX... ❌")
            if not is_last:
                raise _conversion_error(error, "") from error
            if self._report is not None:
                self._report.failed(error)
            report = self._failure_report("conversion", captured) + self._aside_text()
            raise _conversion_error(error, report) from error
        self._print("Translate the graph into ONNX... ✅")
        if options["optimize"]:
            self._print("Optimize the ONNX graph... ✅")
        report = native.report()
        for op, net in report["fallbacks"].items():
            self._print(f"{op} has no native lowering; it was exported by PyTorch's {net}.")
        return native

    def _failure_report(self, postfix: str, captured: torch.export.ExportedProgram | None) -> str:
        profile = _report.stop_profiler(self._profiler)
        if self._report is None:
            return ""
        path = self._report.write(captured, postfix=postfix, profile=profile)
        return f"\nError report has been saved to '{path}'."

    def _dump_program(self, captured: torch.export.ExportedProgram) -> None:
        if not self._dump:
            return
        self._print("Dumping ExportedProgram because `dump_exported_program=True`...")
        path = self._folder / f"onnx_export_{self._timestamp}.pt2"
        try:
            _saving.save_program(captured, path)
        except Exception as error:
            self._print(f"Failed to save ExportedProgram due to an error: {error}")
        else:
            self._print(f"ExportedProgram has been saved to '{path}'.")

    def _verify(self, program: ONNXProgram) -> None:
        from onnx_native import _verification

        verification = _verification.Verification(program, self._print)
        verification.run()
        program.export_report["verification"] = verification.outputs
        if self._report is not None:
            self._report.verified(verification)


class _CaptureFailedError(Exception):
    """torch.export cannot capture the program."""

    def __init__(self, error: Any) -> None:
        super().__init__(str(error))
        self.error: BaseException = error


def _hint(error: BaseException) -> str:
    """Explains errors of torch.export whose text does not name the cause."""
    if "fake tensor in the exported program constant" not in str(error):
        return ""
    return (
        "\nhint: torch.export does not record what a program reads or writes through x.data. Write "
        "x.detach() for x.data, and in place of `x.data = y` assign y to the variable itself"
    )


def _reason_of(error: Exception) -> str:
    """Returns why a way to capture a program failed; the cause of a ConversionError says it."""
    cause = error.__cause__ if isinstance(error, _upstream.ConversionError) else None
    return str(error) if cause is None else _scripting.first_line(cause)


def _conversion_error(error: Exception, report: str) -> _upstream.ConversionError:
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
