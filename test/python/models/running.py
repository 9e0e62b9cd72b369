"""Checks an exported file and compares ONNX Runtime with eager PyTorch."""

import functools
from collections.abc import Mapping, Sequence
from pathlib import Path

import onnx
import onnxruntime
import torch

Inputs = Mapping[str, torch.Tensor]


@functools.cache
def newest_opset() -> int:
    """Returns the newest opset that the installed onnx and ONNX Runtime both accept."""
    for opset in range(onnx.defs.onnx_opset_version(), 20, -1):
        x, y = (
            onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [1]) for name in "xy"
        )
        graph = onnx.helper.make_graph(
            [onnx.helper.make_node("Identity", ["x"], ["y"])], "g", [x], [y]
        )
        imports = [onnx.helper.make_opsetid("", opset)]
        model = onnx.helper.make_model(graph, opset_imports=imports, ir_version=10)
        try:
            onnxruntime.InferenceSession(model.SerializeToString())
        except onnxruntime.capi.onnxruntime_pybind11_state.Fail:
            continue
        return opset
    return 20


def session(path: Path | str | bytes, *, optimized: bool = True) -> onnxruntime.InferenceSession:
    """A session for a file, or for the bytes of a model."""
    options = onnxruntime.SessionOptions()
    if not optimized:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = torch.get_num_threads()
    return onnxruntime.InferenceSession(path, options)


def run(running: onnxruntime.InferenceSession, inputs: Inputs) -> list[torch.Tensor]:
    results = running.run(None, {name: value.numpy() for name, value in inputs.items()})
    return [torch.from_numpy(result) for result in results]


@torch.no_grad()
def eager(module: torch.nn.Module, inputs: Inputs) -> list[torch.Tensor]:
    leaves, _ = torch.utils._pytree.tree_flatten(module(**inputs))
    return [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]


def assert_same(got: Sequence[torch.Tensor], expected: Sequence[torch.Tensor]) -> None:
    """Asserts equal number, dtypes and shapes of results, and equal values to 1e-4."""
    assert len(got) == len(expected)
    for one, other in zip(got, expected, strict=True):
        torch.testing.assert_close(one, other, atol=1e-4, rtol=1e-4)


def greatest_difference(got: Sequence[torch.Tensor], expected: Sequence[torch.Tensor]) -> float:
    return max((one - other).abs().max().item() for one, other in zip(got, expected, strict=True))
