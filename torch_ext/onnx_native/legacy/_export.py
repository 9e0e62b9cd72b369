"""torch.onnx.export(..., dynamo=False), natively.

The contract is that of PyTorch's older exporter: inputs and parameters are named by their order,
``dynamic_axes`` names axes, inputs that nothing reads are not inputs of the model, and nothing is
returned. What has no native way goes to that exporter, with a warning that says why.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import os
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch.onnx import OperatorExportTypes, TrainingMode

from onnx_native import _context, _options, _undo, _warnings
from onnx_native._refusals import first_line
from onnx_native.legacy import _arguments, _contract
from onnx_native.lowerings import _keep, _lowerings, _symbolics
from onnx_native.program import _contents
from onnx_native.program._program import ONNXProgram
from onnx_native.request import _checks
from onnx_native.routes import _log, _routes, _stages
from onnx_native.upstream import _upstream


class Unsuited(Exception):  # noqa: N818
    """The call is left to PyTorch's older exporter; the message says why."""


@dataclasses.dataclass
class LegacyCall:
    """The arguments of PyTorch's function, under the same names."""

    model: Any
    args: Any
    f: Any
    kwargs: dict[str, Any] | None = None
    export_params: bool = True
    verbose: bool = False
    training: TrainingMode = TrainingMode.EVAL
    input_names: Sequence[str] | None = None
    output_names: Sequence[str] | None = None
    operator_export_type: OperatorExportTypes = OperatorExportTypes.ONNX
    opset_version: int | None = None
    do_constant_folding: bool = True
    dynamic_axes: Mapping[str, Any] | None = None
    keep_initializers_as_inputs: bool | None = None
    custom_opsets: Mapping[str, int] | None = None
    export_modules_as_functions: bool | Collection[type[torch.nn.Module]] = False
    autograd_inlining: bool = True

    @property
    def exposes_parameters(self) -> bool:
        """Whether the caller wants the module's own parameters in the model."""
        return not self.export_params or bool(self.keep_initializers_as_inputs)


def export(original: Callable[..., None], *args: Any, **kwargs: Any) -> None:
    """Replaces PyTorch's function of the same name: same arguments, same file."""
    start = time.perf_counter()
    call = LegacyCall(*args, **kwargs)
    try:
        program = _native(call)
    except OSError:
        raise
    except Exception as error:
        reason = first_line(error.__cause__ or error)
        _warnings.warn(f"PyTorch's older exporter exports this model: {reason}")
        original(*args, **kwargs)
        _log.add(call.f, start, {"by": "PyTorch's older exporter", "reason": reason})
    else:
        _log.add(call.f, start, program.export_report["capture"])


@functools.partial(_undo.all_at_end, flags=_upstream.modules_of_flags)
def _native(call: LegacyCall) -> ONNXProgram:
    if call.f is None:
        raise Unsuited("it has no file to write")
    if call.operator_export_type is OperatorExportTypes.ONNX_ATEN:
        raise Unsuited("operator_export_type=ONNX_ATEN keeps PyTorch's operators")
    parameters = _parameters(call)
    layout: _options.WeightLayout | None = (
        "module" if call.exposes_parameters or parameters else None
    )
    functions: Any = call.export_modules_as_functions or None
    with (
        _context.neutral(),
        _mode(call.model, call.training),
        _options.options(functions=functions, weights=layout),
    ):
        program = _with_unknown_operators(call)
        _contract.fit(
            program,
            parameters=parameters,
            order=_parameter_order(call) if call.exposes_parameters else (),
            output_axes=_arguments.output_axes(call.dynamic_axes, call.output_names),
            labels=_arguments.labels(call),
            custom_opsets=call.custom_opsets or {},
        )
        if call.verbose:
            print(_contents.of(program).text())
        _save(program, call)
    return program


@contextlib.contextmanager
def _mode(model: Any, training: TrainingMode) -> Iterator[None]:
    """Puts a module in the mode that the caller wants; every part then has its own mode again."""
    if not isinstance(model, torch.nn.Module) or training is TrainingMode.PRESERVE:
        yield
        return
    wanted = training is TrainingMode.TRAINING
    before = [(part, part.training) for part in model.modules() if hasattr(part, "training")]

    def put_back() -> None:
        for part, mode in before:
            if part.training is not mode:
                part.training = mode

    with _undo.at_end(put_back, of_process=True):
        if any(mode is not wanted for _, mode in before):
            model.train(wanted)
        yield


def _parameters(call: LegacyCall) -> dict[str, str]:
    """The caller's names of parameters: those after the names of the inputs."""
    if not call.input_names or not isinstance(call.model, torch.nn.Module):
        return {}
    count = _arguments.count(call.model, call.args, call.kwargs)
    names = list(call.input_names)[count:]
    state = _parameter_order(call)
    if len(names) > len(state):
        raise Unsuited("input_names has more names than the model has inputs and parameters")
    return dict(zip(state, names, strict=False))


def _parameter_order(call: LegacyCall) -> list[str]:
    is_module = isinstance(call.model, torch.nn.Module)
    return list(_upstream.unique_state_dict(call.model)) if is_module else []


def _with_unknown_operators(call: LegacyCall) -> ONNXProgram:
    """Exports the program; operators without a lowering are nodes if the caller wants that."""
    kept: list[str] = []
    keeps = call.operator_export_type is not OperatorExportTypes.ONNX
    try:
        while True:
            try:
                return _program(call)
            except _upstream.ConversionError as error:
                unknown = [name for name in getattr(error, "operators", ()) if name not in kept]
                if not keeps or not unknown:
                    raise
                for name in unknown:
                    _keep_as_node(name, call.operator_export_type)
                    kept.append(name)
    finally:
        for name in kept:
            _lowerings.remove_lowering(name)


def _keep_as_node(name: str, kind: OperatorExportTypes) -> None:
    namespace = name.partition("::")[0]
    if kind is OperatorExportTypes.ONNX_ATEN_FALLBACK and namespace == "aten":
        raise Unsuited(f"{name} becomes a node ATen")
    _keep.keep(name, domain="org.pytorch.aten" if namespace == "aten" else None)


def _program(call: LegacyCall) -> ONNXProgram:
    opset = _checks.opset_of(call.opset_version)
    symbolics = _symbolics.SymbolicTable(opset)
    stages = _stages.Stages(verbose=False)
    for variant in _arguments.variants(call):
        request = variant.request
        inputs = request.inputs()
        task = _stages.Task(
            request.model,
            inputs,
            opset,
            call.do_constant_folding and not call.exposes_parameters,
            symbolics if symbolics.lowerings else None,
            request.input_names,
            request.output_names,
        )
        program = _routes.natively(task, stages, only_recording=not variant.is_last)
        if program is not None:
            if variant.constants:
                _warn_of_constants(variant.constants, stages)
            stages.finish(task, program, None, verify=False)
            return program
    refusal = stages.attempts[-1].refusal
    assert refusal is not None
    if isinstance(refusal.__cause__, _upstream.ConversionError):
        raise refusal.__cause__
    raise refusal


def _warn_of_constants(constants: Sequence[str], stages: _stages.Stages) -> None:
    refusal = stages.attempts[0].refusal
    assert refusal is not None
    _warnings.warn(
        f"These numbers are constants of the model, not inputs: {', '.join(constants)}. The first "
        f"reason: {refusal.text}"
    )


def _save(program: ONNXProgram, call: LegacyCall) -> None:
    options: dict[str, Any] = {
        "include_initializers": call.export_params,
        "keep_initializers_as_inputs": call.exposes_parameters,
    }
    if _checks.is_stream(call.f):
        call.f.write(_contents.of(program).content(**options))
    else:
        program.save(os.fspath(call.f), **options)
