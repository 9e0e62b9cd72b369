"""torch.onnx.export's work: arguments, capture, the native export, the file."""

import datetime
import io
import os
import pathlib
import time
import traceback
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.onnx import _constants
from torch.onnx._internal.exporter import (
    _capture_strategies,
    _dynamic_shapes,
    _errors,
    _exportable_module,
    _flags,
)

from onnx_native import (
    _fallbacks,
    _inputs,
    _jit,
    _library,
    _options,
    _report,
    _shapes,
    _specialized,
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
    """Takes what PyTorch's function of this name takes, and does what it does."""
    if getattr(model, "training", False):  # frozen TorchScript has no such attribute
        warnings.warn(
            "Exporting a model while it is in training mode. "
            "Please ensure that this is intended, as it may lead to "
            "different behavior during inference. "
            "Calling model.eval() before export is recommended.",
            UserWarning,
            stacklevel=4,
        )
    if isinstance(f, (str, os.PathLike)) and not pathlib.Path(f).absolute().parent.is_dir():
        raise FileNotFoundError(f"the folder to save the ONNX model in does not exist: {str(f)!r}")

    if isinstance(model, _exportable_module.ExportableModule) and not args and not kwargs:
        args, kwargs = model.example_arguments()
        if input_names is None:
            input_names = model.input_names()
        if output_names is None:
            output_names = model.output_names()
        if dynamic_shapes is None:
            dynamic_shapes = model.dynamic_shapes()
    inputs: _inputs.Inputs | None = None
    script: _jit.Inputs | None = None
    if _jit.is_script(model):
        script = _script_inputs(model, args, kwargs, dynamic_shapes, dynamic_axes, input_names)
        inputs = _inputs.Inputs(args, kwargs, None, [], [])
    elif isinstance(model, torch.export.ExportedProgram):
        dynamic_shapes = dynamic_shapes or {}
    else:
        args, kwargs, dynamic_shapes = _capture_arguments(
            model, args, kwargs, dynamic_shapes, dynamic_axes, input_names, output_names
        )
        _inputs.register_caches(model, args, kwargs)
        if dynamic_shapes:
            inputs = _inputs.prepare(model, args, kwargs, dynamic_shapes)
    if inputs is None:
        shapes, named = _shapes.without_names(dynamic_shapes)
        specs = _shapes.flat_specs(dynamic_shapes) if named else []
        inputs = _inputs.Inputs(args, kwargs, shapes, specs, [])
    opset = _constants.ONNX_DEFAULT_OPSET if opset_version is None else opset_version
    translations = None
    if custom_translation_table is not None:
        from onnx_native import _translation

        translations = _translation.Table(custom_translation_table, opset)
    program = _Exporter(
        verbose=verbose,
        report=report,
        profile=profile,
        dump_exported_program=dump_exported_program,
        artifacts_dir=pathlib.Path(artifacts_dir),
    ).export(
        model,
        inputs,
        opset=opset,
        optimize=optimize,
        verify=verify,
        translations=translations,
        input_names=_unique_names("Input", input_names),
        output_names=_unique_names("Output", output_names),
        script=script,
    )
    if isinstance(f, io.BytesIO):
        warnings.warn(
            "Saving ONNX model to a BytesIO object is deprecated. Please use a file path instead.",
            DeprecationWarning,
            stacklevel=3,
        )
        f.write(program.model_proto.SerializeToString())
    elif f is not None:
        start = time.perf_counter()
        program.save(
            f,
            include_initializers=export_params,
            keep_initializers_as_inputs=keep_initializers_as_inputs,
            external_data=external_data,
        )
        program.export_report["seconds"]["save"] = time.perf_counter() - start
    return program


def _unique_names(kind: str, names: Sequence[str] | None) -> list[str]:
    result = list(names or ())
    duplicates = [name for i, name in enumerate(result) if name in result[:i]]
    if duplicates:
        raise ValueError(f"{kind} names cannot be duplicated: {duplicates}")
    return result


def _capture_arguments(
    model: Any,
    args: tuple[Any, ...],
    kwargs: dict[str, Any] | None,
    dynamic_shapes: Any,
    dynamic_axes: Any,
    input_names: Sequence[str] | None,
    output_names: Sequence[str] | None,
) -> tuple[tuple[Any, ...], dict[str, Any] | None, Any]:
    if not kwargs and args and isinstance(args[-1], dict):
        args, kwargs = args[:-1], args[-1]
    if dynamic_shapes is not None or dynamic_axes is None:
        return args, kwargs, dynamic_shapes
    warnings.warn(
        "# 'dynamic_axes' is not recommended when dynamo=True, "
        "and may lead to 'torch._dynamo.exc.UserError: Constraints violated.' "
        "Supply the 'dynamic_shapes' argument instead if export is unsuccessful.",
        UserWarning,
        stacklevel=5,
    )
    try:
        dynamic_shapes, args, kwargs = _dynamic_shapes.from_dynamic_axes_to_dynamic_shapes(
            model,
            args,
            kwargs,
            dynamic_axes=dynamic_axes,
            input_names=input_names,
            output_names=set(output_names or ()),
        )
    except Exception as error:
        raise RuntimeError(
            "# Failed to convert 'dynamic_axes' to 'dynamic_shapes'. "
            "Please provide 'dynamic_shapes' directly. "
            "Refer to the documentation for 'torch.export.export' for more information on "
            "dynamic shapes."
        ) from error
    return args, kwargs, dynamic_shapes


def _script_inputs(
    model: Any,
    args: tuple[Any, ...],
    kwargs: dict[str, Any] | None,
    dynamic_shapes: Any,
    dynamic_axes: Any,
    input_names: Sequence[str] | None,
) -> _jit.Inputs:
    if not isinstance(args, tuple):
        args = (args,)
    if not kwargs and args and isinstance(args[-1], dict) and not _jit.takes_dict(model, len(args)):
        args, kwargs = args[:-1], args[-1]
    if dynamic_shapes is None and dynamic_axes is not None:
        dynamic_shapes = _jit.dynamic_shapes_of(dynamic_axes, input_names, model)
    return _jit.Inputs(model, args, kwargs, dynamic_shapes)


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
        self._print = _capture_strategies._verbose_printer(verbose)
        self._dump = dump_exported_program
        self._folder = artifacts_dir
        if report or profile or dump_exported_program:
            artifacts_dir.mkdir(parents=True, exist_ok=True)
        timestamp = datetime.datetime.now().strftime("%Y-%m-%d_%H-%M-%S-%f")
        self._timestamp = timestamp
        self._report = _report.Report(artifacts_dir, timestamp) if report else None
        self._profiler = _report.start_profiler() if profile else None

    @_flags.set_onnx_exporting_flag
    def export(
        self,
        model: Any,
        inputs: _inputs.Inputs,
        *,
        opset: int,
        optimize: bool,
        verify: bool,
        translations: Any,
        input_names: list[str],
        output_names: list[str],
        script: _jit.Inputs | None = None,
    ) -> ONNXProgram:
        start = time.perf_counter()
        if script is not None:
            captured, strategy = None, "TorchScript"
        elif isinstance(model, torch.export.ExportedProgram):
            captured, strategy = model, None
        else:
            with _inputs.elements_of(model, inputs.scalars), _specialized.recorded_lines():
                captured, strategy = self._capture(model, inputs)
        capture_seconds = time.perf_counter() - start
        options = {
            "opset": opset,
            "optimize": optimize,
            "input_names": input_names,
            "output_names": output_names,
            "verify": verify,
            "translations": translations,
        }
        if captured is None:
            assert script is not None
            source = (model, script.specs, "forward")
            native = self._convert(None, source, hints=script.hints, **options)
            program = ONNXProgram(native, None, script.flat)
        else:
            self._dump_program(captured)
            captured = _vmap.unfold(captured)
            names = _shapes.symbol_names(captured, inputs.specs) if inputs.specs else {}
            hints = self._example_sizes(captured, names)
            native = self._convert(captured, captured, symbol_names=names, hints=hints, **options)
            program = ONNXProgram(native, captured)
        program._capture_strategy = strategy
        program.export_report["seconds"] = {
            "capture": capture_seconds,
            **program.export_report["seconds"],
        }
        profile = _report.stop_profiler(self._profiler)
        if verify:
            self._verify(program)
        if self._report is not None:
            path = self._report.write(captured, program=program, profile=profile)
            self._print(f"Export report has been saved to '{path}'.")
        elif profile is not None:
            self._print("Profile result:")
            self._print(profile)
        return program

    def _capture(
        self, model: Any, inputs: _inputs.Inputs
    ) -> tuple[torch.export.ExportedProgram, str]:
        failed: list[_capture_strategies.Result] = []
        for strategy_class in _capture_strategies.CAPTURE_STRATEGIES:
            strategy = strategy_class(
                verbose=self._verbose,
                dump=self._dump,
                artifacts_dir=self._folder,
                timestamp=self._timestamp,
            )
            result = strategy(
                model, inputs.args, inputs.kwargs, dynamic_shapes=inputs.dynamic_shapes
            )
            if result.exception is not None:
                failed.append(result)
            if self._report is not None:
                self._report.captured(result)
            if result.exported_program is not None:
                return result.exported_program, result.strategy
        from torch.onnx._internal.exporter import _core

        first = failed[0].exception
        assert first is not None
        raise _errors.TorchExportError(
            _core._STEP_ONE_ERROR_MESSAGE
            + self._failure_report("pt_export", None)
            + _core._summarize_exception_stack(first)
        ) from first

    def _example_sizes(
        self, captured: torch.export.ExportedProgram, names: dict[str, str]
    ) -> dict[str, int]:
        """The sizes of the example by their names, which must not have specialized the program."""
        try:
            hints = _specialized.check(captured, names)
        except _library.extension().ExportError as error:
            raise _conversion_error(error, self._failure_report("conversion", captured)) from error
        return {names.get(symbol, symbol): size for symbol, size in hints.items()}

    def _convert(
        self, captured: torch.export.ExportedProgram | None, source: Any, **options: Any
    ) -> Any:
        """The native program of `source`, which is what was captured or a TorchScript module."""
        self._print("Translate the graph into ONNX...")
        try:
            native = _library.extension().Program(
                source,
                state=_options.current().state,
                metadata=_options.current().metadata,
                functions=_options.current().functions,
                fallbacks=_fallbacks.is_enabled(),
                **options,
            )
        except Exception as error:
            self._print("Translate the graph into ONNX... ❌")
            if self._report is not None:
                self._report.errors.append("".join(traceback.format_exception(error)))
            raise _conversion_error(error, self._failure_report("conversion", captured)) from error
        self._print("Translate the graph into ONNX... ✅")
        if options["optimize"]:
            self._print("Optimize the ONNX graph... ✅")
        report = native.report()
        for op, net in report["fallbacks"].items():
            self._print(f"{op} has no native lowering: it was exported by PyTorch's {net}.")
        if messages := report["warnings"]:
            warnings.warn("\n".join(messages), torch.onnx.errors.OnnxExporterWarning, stacklevel=7)
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
            torch.export.save(captured, path)
        except Exception as error:
            self._print(f"Failed to save ExportedProgram due to an error: {error}")
        else:
            self._print(f"ExportedProgram has been saved to '{path}'.")

    def _verify(self, program: ONNXProgram) -> None:
        steps = _report.verify(program, self._print)
        if self._report is not None:
            self._report.verified(steps)
        program.release()


def _conversion_error(error: Exception, report: str) -> _errors.ConversionError:
    """PyTorch's exception, with the fields of onnx_native.ExportError where the cause is one."""
    is_ours = isinstance(error, _library.extension().ExportError)
    text = f"ExportError {error}" if is_ours else f"{type(error).__name__}: {error}"
    result = _errors.ConversionError(
        f"Failed to convert the exported program to an ONNX model.\n{text}{report}"
    )
    if is_ours:
        for name, value in vars(error).items():
            setattr(result, name, value)
    return result
