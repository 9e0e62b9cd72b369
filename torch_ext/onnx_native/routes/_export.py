"""Implements torch.onnx.export: arguments, capture, native export, saving."""

import io
import os
import pathlib
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from onnx_native import _warnings
from onnx_native.lowerings import _symbolics
from onnx_native.program import _contents
from onnx_native.program._program import ONNXProgram
from onnx_native.request import _arguments, _checks, _inputs, _request
from onnx_native.routes import _log, _routes, _stages


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
    start = time.perf_counter()
    _checks.training_mode(model)
    _checks.ignored_arguments(model)
    _checks.destination(f)
    opset = _checks.opset_of(opset_version)
    request = _request.Request(
        model, args, kwargs, dynamic_shapes, dynamic_axes, input_names, output_names
    )
    inputs = request.inputs()
    stages = _stages.Stages(
        verbose=verbose,
        report=report,
        profile=profile,
        dump_exported_program=dump_exported_program,
        artifacts_dir=pathlib.Path(artifacts_dir),
    )
    task = _stages.Task(
        request.model,
        inputs,
        opset,
        optimize,
        _translations(custom_translation_table, opset),
        request.input_names,
        request.output_names,
    )
    program, captured = _routes.export(task, stages)
    stages.finish(task, program, captured, verify=verify)
    if isinstance(inputs, _inputs.Inputs):
        origin = _contents.of(program).origin
        origin.arrange = _arguments.Arrangement(request.model, inputs.args, inputs.kwargs)
    _save(
        program,
        f,
        include_initializers=export_params,
        keep_initializers_as_inputs=keep_initializers_as_inputs,
        external_data=external_data,
    )
    _log.add(f, start, program.export_report["capture"])
    return program


def _translations(table: dict[Callable, Callable] | None, opset: int) -> Any:
    if table is None:
        symbolics = _symbolics.SymbolicTable(opset)
        _symbolics.warn_of_unused(symbolics)
        return symbolics if symbolics.lowerings else None
    from onnx_native.lowerings import _translation

    return _translation.TranslationTable(table, opset)


def _save(program: ONNXProgram, f: Any, *, external_data: bool, **options: Any) -> None:
    if f is not None and _checks.is_stream(f):
        kind = "BytesIO" if isinstance(f, io.BytesIO) else "file"
        _warnings.warn(
            f"Saving ONNX model to a {kind} object is deprecated. Please use a file path instead.",
            DeprecationWarning,
        )
        f.write(_contents.of(program).content(**options))
    elif f is not None:
        start = time.perf_counter()
        program.save(f, external_data=external_data, **options)
        program.export_report["seconds"]["save"] = time.perf_counter() - start
