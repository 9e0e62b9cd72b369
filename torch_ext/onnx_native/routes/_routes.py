"""The routes of an export, in order. The first that does not refuse the program exports it.

| route | what it exports |
| --- | --- |
| native | modules that the native recorder captures, unless options(capture="torch.export") |
| native, at other sizes | modules that fix a dynamic size, with the same results at others |
| native, rolled | modules with loops over a dynamic size, which become scans |
| native, unrolled | modules whose loops run as often as for the example |
| TorchScript | scripts of the user; modules with loops over dynamic sizes or branches on elements |
| native, both ways | modules with branches on elements that TorchScript does not compile |
| torch.export | all other modules and functions; captured programs of the user |
| torch.export | modules of which a route fixed a dynamic size, if torch.export keeps it |
| TorchScript | modules that torch.export refuses, if not tried before |
"""

from __future__ import annotations

import torch

from onnx_native._refusals import Kind, Refusal, first_line
from onnx_native.program._program import ONNXProgram
from onnx_native.request import _jit
from onnx_native.routes import _native_route, _script_route, _torch_export_route
from onnx_native.routes._stages import Stages, Task
from onnx_native.upstream import _upstream


def export(task: Task, stages: Stages) -> tuple[ONNXProgram, torch.export.ExportedProgram | None]:
    """Returns the program, and what torch.export captured if it took that route.

    Raises:
        TorchExportError: No route has the program, or the module itself fails for the example.
        ConversionError: What the last route captured has no ONNX model.
    """
    if isinstance(task.inputs, _jit.ScriptInputs):
        own = _script_route.of_script
        program = stages.attempt("TorchScript", own, task, stages, task.model, task.inputs)
        assert program is not None
        return program, None
    reason: str | None = None
    if _native_route.takes(task):
        program, reason = _without_torch_export(task, stages)
        if program is not None:
            return _widest(program, task, stages)
    route = _torch_export_route.Route(task, stages, reason)
    program = stages.attempt("torch.export", route.export)
    if program is None:
        program = _in_place_of_torch_export(task, stages, reason)
        if program is None:
            error, cause = route.error()
            raise error from cause
        return program, None
    return program, route.captured


def _widest(
    program: ONNXProgram, task: Task, stages: Stages
) -> tuple[ONNXProgram, torch.export.ExportedProgram | None]:
    """Returns the program, or torch.export's if that keeps more of the user's sizes dynamic."""
    if not any("note" in guard for guard in program.export_report["capture"]["guards"]):
        return program, None
    kept = next(attempt for attempt in reversed(stages.attempts) if attempt.refusal is None)
    reason = "a dynamic size becomes static, which torch.export keeps"
    route = _torch_export_route.Route(task, stages, reason)
    try:
        wider = stages.attempt("torch.export", route.export)
    except (_upstream.ConversionError, _upstream.TorchExportError) as error:
        wider = None
        stages.attempts[-1].refusal = Refusal(first_line(error))
    if wider is not None and _dynamic_sizes(wider) > _dynamic_sizes(program):
        kept.refusal = Refusal(reason, Kind.PINNED_SIZE)
        return wider, route.captured
    if wider is not None:
        stages.attempts[-1].refusal = Refusal("it keeps no more sizes dynamic", Kind.PINNED_SIZE)
    return program, None


def _dynamic_sizes(program: ONNXProgram) -> int:
    """How many sizes of the inputs are dynamic."""
    return sum(
        bool(size.dim_param)
        for value in program.model_proto.graph.input
        for size in value.type.tensor_type.shape.dim
    )


def natively(task: Task, stages: Stages, *, only_recording: bool = False) -> ONNXProgram | None:
    """Returns the program without torch.export; None if that cannot be, with reasons in `stages`.

    Args:
        task: The task.
        stages: The stages of the export.
        only_recording: Whether the program is to be recorded, with one way of each branch.

    Raises:
        ConversionError: A script of the user has no ONNX model.
    """
    if isinstance(task.inputs, _jit.ScriptInputs) or not _native_route.takes(task):
        return export(task, stages)[0]
    if only_recording:
        return stages.attempt("native", _native_route.export, task, stages)
    return _without_torch_export(task, stages)[0]


def _without_torch_export(task: Task, stages: Stages) -> tuple[ONNXProgram | None, str | None]:
    """Returns the program, or why the native capture does not record it.

    Raises:
        TorchExportError: The module itself fails for the example.
    """
    program = stages.attempt("native", _native_route.export, task, stages, unrolls=False)
    refusal = stages.attempts[-1].refusal
    if program is not None:
        return _rolled(program, task, stages), None
    assert refusal is not None
    if refusal.kind is Kind.FAILURE:
        _torch_export_route.check_module(task, stages, refusal.text)
    if refusal.kind is Kind.PINNED_SIZE:
        name = "native, at other sizes"
        program = stages.attempt(name, _native_route.export_elsewhere, task, stages)
    is_loop = refusal.kind in (Kind.LOOP, Kind.UNROLLED)
    if is_loop or (refusal.kind is Kind.PINNED_SIZE and program is None):
        program = stages.attempt("native, rolled", _native_route.export_rolled, task, stages)
    if program is not None or not (is_loop or refusal.kind is Kind.CONTROL_FLOW):
        return program, refusal.text
    if refusal.kind is Kind.UNROLLED:
        program = stages.attempt("native, unrolled", _native_route.export, task, stages)
    scripted = _scripted(task, stages, refusal.text)
    if scripted is not None:
        return scripted, None
    if refusal.kind is Kind.CONTROL_FLOW:
        name = "native, both ways"
        program = stages.attempt(name, _native_route.export, task, stages, forks=True)
    return program, refusal.text


def _rolled(program: ONNXProgram, task: Task, stages: Stages) -> ONNXProgram:
    """Returns the program; if a loop in it runs as often as for the example, one with scans."""
    unrolled = program.export_report["capture"]["unrolled"]
    if not unrolled:
        return program
    steps = [condition.rpartition(" == ")[0] for condition in unrolled]
    kept = stages.attempts[-1]
    rolled = stages.attempt("native, rolled", _native_route.export_pieces, task, stages, steps)
    if rolled is None:
        return program
    kept.refusal = Refusal("a loop runs as often as for the example", Kind.UNROLLED)
    return rolled


def _in_place_of_torch_export(task: Task, stages: Stages, reason: str | None) -> ONNXProgram | None:
    """Returns a program as TorchScript that torch.export refuses; None if it cannot be."""
    refusal = stages.attempts[-1].refusal
    assert refusal is not None
    tried = any(attempt.route == "TorchScript" for attempt in stages.attempts)
    if reason is None or tried or refusal.kind is Kind.PINNED_SIZE:
        return None
    return _scripted(task, stages, f"{reason}\n{refusal.text}")


def _scripted(task: Task, stages: Stages, reason: str) -> ONNXProgram | None:
    if not _script_route.takes(task, stages):
        return None
    return stages.attempt("TorchScript", _script_route.export, task, stages, reason)
