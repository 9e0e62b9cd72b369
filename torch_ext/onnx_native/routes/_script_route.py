"""TorchScript as a route of an export: the user's own, or compiled from a module."""

from __future__ import annotations

import functools
import time

from onnx_native import _context
from onnx_native._refusals import Refusal
from onnx_native.modules import _eager
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
    try:
        script = _context.one_at_a_time(_scripting.scripted)(
            task.model, inputs.args, inputs.kwargs, inputs.specs
        )
        stages.say("Obtain model graph with `torch.jit.script(...)`... ✅")
        program = of_script(task, stages, script.module, script.inputs, reason)
        script.check_dtypes(program.output_dtypes)
    except (_scripting.ScriptingError, _upstream.ConversionError) as error:
        refusal = Refusal(reason_of(error))
        stages.say(f"Obtain model graph with `torch.jit.script(...)`... ❌: {refusal.text}")
        raise refusal from error
    program.eager = _eager.Eager(task.model, inputs)
    return program


def of_script(
    task: Task, stages: Stages, script: object, inputs: _jit.ScriptInputs, reason: str | None = None
) -> ONNXProgram:
    """Exports a TorchScript module or function.

    Raises:
        ConversionError: It has no ONNX model. If `reason` is None it is the user's, and no other
            route follows.
    """
    seconds = time.perf_counter() - stages.started
    question = _devices.question(script, inputs.arguments)
    if question is not None:
        raise _upstream.ConversionError(question)
    source = (script, inputs.specs, "forward")
    native = stages.convert(task, source, is_last=reason is None, hints=inputs.hints)
    program = ONNXProgram(native, None, inputs.flat)
    arguments = _inputs.Inputs(tuple(inputs.arguments), {}, None, [])
    program.eager = _eager.Eager(script, arguments)
    program.recorded = functools.partial(_replay.of_script, source, inputs)
    program.captured_with("TorchScript", seconds, reason)
    return program
