"""Exports one call and compares ONNX Runtime with eager PyTorch."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import onnxruntime
import torch
from torch.utils import _pytree as pytree

from ops.row import TOLERANCES, Case, Row


class Calling(torch.nn.Module):
    """Wraps a case in a module."""

    def __init__(self, case: Case) -> None:
        super().__init__()
        self.function = case.function

    def forward(self, *tensors: torch.Tensor) -> Any:
        return self.function(*tensors)


def export(
    case: Case, grows: Sequence[bool] = (), opset_version: int | None = None
) -> torch.onnx.ONNXProgram:
    """Exports a case; inputs marked in `grows` have a dynamic first dimension."""
    shapes = None
    if any(grows):
        size = torch.export.Dim("n")
        shapes = {"tensors": tuple({0: size} if grow else {} for grow in grows)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = torch.onnx.export(
            Calling(case).eval(),
            case.inputs,
            dynamo=True,
            dynamic_shapes=shapes,
            opset_version=opset_version,
            verbose=False,
        )
    assert program is not None
    return program


def export_program(
    captured: torch.export.ExportedProgram, opset: int | None = None
) -> torch.onnx.ONNXProgram:
    """Exports a captured program."""
    program = torch.onnx.export(captured, dynamo=True, opset_version=opset, verbose=False)
    assert program is not None
    return program


def operators(program: torch.onnx.ONNXProgram) -> set[str]:
    """Returns the keys of the op table that an export used, in the format of rows."""
    report: Any = program.export_report  # type: ignore[attr-defined]
    return set(report["operators"])


def fallbacks(program: torch.onnx.ONNXProgram) -> set[str]:
    """Returns the operators for which an export needed a fallback."""
    report: Any = program.export_report  # type: ignore[attr-defined]
    return set(report.get("fallbacks", ()))


def check(program: torch.onnx.ONNXProgram) -> None:
    """Runs the full check of onnx's checker."""
    onnx.checker.check_model(program.model_proto, full_check=True)


def session(program: torch.onnx.ONNXProgram) -> onnxruntime.InferenceSession:
    """Checks the model and loads it in ONNX Runtime without optimizations."""
    check(program)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(
        program.model_proto.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )


def real(tensor: torch.Tensor) -> torch.Tensor:
    """Returns a tensor in its ONNX form: complex tensors become real, with a last axis of 2."""
    return torch.view_as_real(tensor.resolve_conj()) if tensor.is_complex() else tensor


def ort_value(tensor: torch.Tensor) -> onnxruntime.OrtValue:
    """Converts a tensor for ONNX Runtime, including bfloat16."""
    tensor = real(tensor)
    if tensor.dtype is torch.bfloat16:
        return onnxruntime.OrtValue.ortvalue_from_numpy_with_onnx_type(
            tensor.contiguous().view(torch.uint16).numpy(), onnx.TensorProto.BFLOAT16
        )
    return onnxruntime.OrtValue.ortvalue_from_numpy(tensor.numpy())


def from_numpy(array: np.ndarray) -> torch.Tensor:
    """Normalizes uint64: NumPy has two types for it, of which torch accepts one."""
    return torch.from_numpy(array.view(array.dtype.str))


def eager(case: Case, inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    return [
        leaf if isinstance(leaf, torch.Tensor) else torch.tensor(leaf)
        for leaf in pytree.tree_leaves(case.function(*inputs))
        if leaf is not None
    ]


def eager_in_float64(case: Case, inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """Rounds results to eager's dtypes."""
    wide = eager(case, [x.double() if x.is_floating_point() else x for x in inputs])
    return [exact.to(result.dtype) for exact, result in zip(wide, eager(case, inputs), strict=True)]


def compare(
    row: Row, running: onnxruntime.InferenceSession, case: Case, inputs: Sequence[torch.Tensor]
) -> None:
    """Runs the model and eager, and compares dtype, shape and values."""
    half = any(x.dtype is torch.float16 for x in inputs)
    expected = (eager_in_float64 if row.wide and half else eager)(case, inputs)
    # Unused inputs are still inputs; inputs are in the program's order.
    names = [argument.name for argument in running.get_inputs()]
    assert len(names) == len(inputs)
    feeds = {name: ort_value(value) for name, value in zip(names, inputs, strict=True)}
    outputs = [output.name for output in running.get_outputs()]
    results = [
        torch.from_dlpack(result._ortvalue.to_dlpack())
        if result.data_type() == "tensor(bfloat16)"
        else from_numpy(result.numpy())
        for result in running.run_with_ort_values(outputs, feeds)
    ]
    assert len(results) == len(expected)
    for result, wanted in zip(results, expected, strict=True):
        wanted = real(wanted)
        if row.random:
            assert (result.dtype, result.shape) == (wanted.dtype, wanted.shape)
            continue
        rtol, atol = row.tolerance.get(
            str(wanted.dtype).removeprefix("torch."), TOLERANCES.get(wanted.dtype, (0, 0))
        )
        torch.testing.assert_close(result, wanted, rtol=rtol, atol=atol, equal_nan=True)
