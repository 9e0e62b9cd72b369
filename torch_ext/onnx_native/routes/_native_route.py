"""The native capture as a route of an export."""

from __future__ import annotations

import functools
import importlib.util
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch

from onnx_native import _context, _options
from onnx_native._refusals import Kind, Refusal
from onnx_native.modules import _eager, _placeholders
from onnx_native.program import _origin
from onnx_native.program._program import ONNXProgram
from onnx_native.recording import _capture, _recorder
from onnx_native.replay import _replay
from onnx_native.request import _jit
from onnx_native.rolling import _rolling
from onnx_native.routes import _torch_export_route
from onnx_native.routes._stages import Stages, Task, reason_of
from onnx_native.upstream import _upstream


def takes(task: Task) -> bool:
    """Whether the native capture records programs of this kind."""
    is_captured = isinstance(task.model, torch.export.ExportedProgram)
    is_script = isinstance(task.inputs, _jit.ScriptInputs)
    return not is_captured and not is_script and _options.current().capture != "torch.export"


def export(
    task: Task,
    stages: Stages,
    *,
    forks: bool = False,
    unrolls: bool = True,
) -> ONNXProgram:
    """Exports a module that the native recorder captures.

    Args:
        task: The task.
        stages: The stages of the export.
        forks: Whether both ways of branches on elements are recorded.
        unrolls: Whether a loop over a size that the user only named is unrolled for the example.

    Raises:
        Refusal: The recorder is not sure of the program.
    """
    record = functools.partial(
        _capture.capture,
        task.model,
        task.arguments,
        task.opset,
        forks=forks,
        unrolls=unrolls,
    )
    return _in_all_ways(task, stages, record)


# Targets whose importers do not load an If that decides by symbolic sizes.
_WITHOUT_BRANCHES = ("tract",)


class _SeveralWaysError(Exception):
    """A recording of several ways has no ONNX model."""


def _in_all_ways(
    task: Task, stages: Stages, record: Callable[..., _recorder.Recorded]
) -> ONNXProgram:
    """Exports what is recorded with the other ways of the program, or the way of the example."""
    options = _options.current()
    if options.branches == "both" and options.target not in _WITHOUT_BRANCHES:
        try:
            return _exported(task, stages, functools.partial(record, ways=True))
        except _SeveralWaysError:  # a call needs to know more than that it has one of two operands
            stages.say("Record the way of the example only")
    return _exported(task, stages, record)


def _exported(task: Task, stages: Stages, record: Callable[[], _recorder.Recorded]) -> ONNXProgram:
    start = time.perf_counter()
    try:
        recorded = _recorded(task, stages, record)
        seconds = time.perf_counter() - start
        text = "" if stages.report is None else recorded.native.text()
        hints = recorded.sizes.example
        try:
            native = stages.convert(task, recorded.native, is_last=False, hints=hints)
        except _upstream.ConversionError as error:
            if recorded.ways > 1:
                raise _SeveralWaysError from error
            raise
        if stages.report is not None:
            stages.report.recorded(text)
    except (_recorder.StepAsideError, _upstream.ConversionError) as error:
        reason = reason_of(error)
        stages.say(f"Obtain model graph with the native capture... ❌: {reason}")
        kind = error.kind if isinstance(error, Refusal) else Kind.OTHER
        raise Refusal(reason, kind) from error
    origin = _origin.Origin(
        capture=functools.partial(_torch_export_route.exported_program, task, stages),
        eager=_eager.Eager(task.model, task.arguments, recorded.sizes),
        recorded=functools.partial(_replay.of_recording, record, task.arguments),
        flatten=recorded.flatten,
        tied=recorded.tied,
        reads=recorded.native.read_inputs(),
    )
    # A loop on one of several ways has a condition such as "n//64 == 1 or n == 1".
    conditions = [part for guard in recorded.guards for part in guard["condition"].split(" or ")]
    capture = _origin.CaptureReport(
        "native",
        seconds,
        guards=recorded.guards,
        dimensions=recorded.dimensions,
        rolled=recorded.rolled,
        unrolled=[each for each in conditions if each.rpartition(" == ")[0] in recorded.unrolled],
    )
    program = ONNXProgram(native, origin, capture, is_silent=not stages.is_verbose)
    program.export_report["known_elements"] = recorded.known
    program.export_report["warnings"] += recorded.warnings
    for name, source in recorded.known:
        stages.say(f"The model is valid for the present elements of {name}: {source}")
    return program


def export_rolled(task: Task, stages: Stages) -> ONNXProgram:
    """Exports a module with loops over a dynamic size, which become scans.

    Raises:
        Refusal: The recorder is not sure of the program.
    """
    return _in_all_ways(
        task, stages, functools.partial(_rolling.capture, task.model, task.arguments, task.opset)
    )


def export_pieces(task: Task, stages: Stages, steps: Sequence[str]) -> ONNXProgram:
    """Exports a module with loops over pieces of a dynamic size, which become scans.

    Args:
        task: The task.
        stages: The stages of the export.
        steps: How many steps the loops have.

    Raises:
        Refusal: The recorder is not sure of the program.
    """
    capture = _rolling.capture_pieces
    record = functools.partial(capture, task.model, task.arguments, task.opset, steps)
    return _in_all_ways(task, stages, record)


def export_elsewhere(task: Task, stages: Stages) -> ONNXProgram:
    """Exports a module that takes another way for the sizes of the example than for larger ones.

    The model is that of larger sizes. It must give eager's results for the example too.

    Raises:
        Refusal: It does not, or it cannot run here.
    """
    from onnx_native.verify import _verification

    if importlib.util.find_spec("onnxruntime") is None:
        raise Refusal("the example must run in ONNX Runtime, which is not installed")
    if any(map(_placeholders.lacks_elements, _tensors(task))):
        raise Refusal("the example must run, and has tensors without elements")
    record = functools.partial(_capture.capture_elsewhere, task.model, task.arguments, task.opset)
    with _options.options(quantize_weights="none"):
        program = _exported(task, stages, record)
    try:
        differs = _verification.differs_for_example(program)
    except Exception as error:
        raise Refusal(reason_of(error)) from error
    if differs:
        raise Refusal("larger sizes take another way, with other results", Kind.DIFFERENCE)
    if _options.current().quantize_weights.dtype != "none":
        program = _exported(task, stages, record)
    program.export_report["warnings"].append(
        "the program takes another way for the sizes of the example than for those of the model; "
        "its results for the example are those of the model"
    )
    return program


def _tensors(task: Task) -> list[Any]:
    leaves = _upstream.pytree.tree_leaves((task.arguments.args, task.arguments.kwargs))
    return [*leaves, *task.model.parameters(), *task.model.buffers()]


def _recorded(
    task: Task, stages: Stages, record: Callable[[], _recorder.Recorded]
) -> _recorder.Recorded:
    if stages.dumps:
        raise _recorder.StepAsideError("the export writes an ExportedProgram")
    if task.translations is not None and task.translations.is_of_user:
        raise _recorder.StepAsideError("a translation table needs PyTorch's decompositions")
    recorded = _context.one_at_a_time(record)()
    stages.say("Obtain model graph with the native capture... ✅")
    return recorded
