"""TorchScript as a route of an export: the user's own, or compiled from a module."""

from __future__ import annotations

import functools
import time

from onnx_native import _context, _library
from onnx_native._refusals import Refusal
from onnx_native.modules import _eager
from onnx_native.program import _origin
from onnx_native.program._program import ONNXProgram
from onnx_native.replay import _replay
from onnx_native.request import _inputs, _jit
from onnx_native.routes._stages import Stages, Task, reason_of
from onnx_native.torchscript import _devices, _scripting
from onnx_native.upstream import _upstream


def takes(task: Task, stages: Stages) -> bool:
    """Whether a module can be compiled and stand for the program with these inputs."""
    inputs = task.inputs
    if stages.dumps or isinstance(inputs, _jit.ScriptInputs):
        return False
    return inputs.fit and not inputs.constants and not inputs.scalars


def export(task: Task, stages: Stages, reason: str) -> ONNXProgram:
    """Exports a module as TorchScript, which is compiled from it.

    Args:
        task: The task.
        stages: The stages of the export.
        reason: Why the native capture does not have the program.

    Raises:
        Refusal: TorchScript cannot stand for the module.
    """
    inputs = task.arguments
    eager = _eager.Eager(task.model, inputs)
    try:
        script = _context.one_at_a_time(_scripting.scripted)(
            task.model, inputs.args, inputs.kwargs, inputs.specs
        )
        stages.say("Obtain model graph with `torch.jit.script(...)`... ✅")
        return _program(task, stages, script.module, script.inputs, eager, reason, script)
    except (_scripting.ScriptingError, _upstream.ConversionError) as error:
        refusal = Refusal(reason_of(error))
        stages.say(f"Obtain model graph with `torch.jit.script(...)`... ❌: {refusal.text}")
        raise refusal from error


def of_script(task: Task, stages: Stages, script: object, inputs: _jit.ScriptInputs) -> ONNXProgram:
    """Exports a TorchScript module or function of the user.

    Raises:
        ConversionError: It has no ONNX model.
    """
    arguments = _inputs.Inputs(tuple(inputs.arguments), {}, None, [])
    return _program(task, stages, script, inputs, _eager.Eager(script, arguments))


def _program(
    task: Task,
    stages: Stages,
    script: object,
    inputs: _jit.ScriptInputs,
    eager: _eager.Eager,
    reason: str | None = None,
    compiled: _scripting.Script | None = None,
) -> ONNXProgram:
    """Exports TorchScript; `compiled` if it was compiled from a module, for a reason."""
    seconds = time.perf_counter() - stages.started
    question = _devices.question(script, inputs.arguments)
    if question is not None:
        raise _upstream.ConversionError(question)
    source = _library.extension().ScriptSource(script, inputs.specs)
    native = stages.convert(task, source, is_last=compiled is None, hints=inputs.hints)
    if compiled is not None:
        compiled.check_dtypes(native.output_dtypes, native.half_dtype)
    origin = _origin.Origin(
        eager=eager,
        recorded=functools.partial(_replay.of_script, source, inputs),
        flatten=inputs.flat,
    )
    capture = _origin.CaptureReport("TorchScript", seconds, reason)
    return ONNXProgram(native, origin, capture, is_silent=not stages.is_verbose)
