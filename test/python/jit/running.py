"""Exports a TorchScript module or function and compares the model's results in ONNX Runtime."""

import copy
from typing import Any

import onnx
import onnxruntime
import torch
from models.running import assert_same, newest_opset

OPSETS = (20, newest_opset())


@torch.no_grad()
def check(
    module: torch.jit.ScriptModule | torch.jit.ScriptFunction,
    inputs: list[tuple[Any, ...]],
    dynamic_shapes: Any = None,
    opsets: tuple[int, ...] = OPSETS,
    **options: Any,
) -> torch.onnx.ONNXProgram:
    """Exports for the first inputs and runs all inputs without ONNX Runtime's optimizations."""
    for opset in opsets:
        program = torch.onnx.export(
            module,
            inputs[0],
            dynamo=True,
            verbose=False,
            dynamic_shapes=dynamic_shapes,
            opset_version=opset,
            **options,
        )
        assert program is not None
        assert program.model_proto.opset_import[0].version == opset
        onnx.checker.check_model(program.model_proto, full_check=True)
        program.initialize_inference_session(_session)
        for args in inputs:
            # The module may change its attributes.
            eager = copy.deepcopy(module) if isinstance(module, torch.nn.Module) else module
            expected = torch.utils._pytree.tree_leaves(eager(*clone(args)))
            tensors = [torch.as_tensor(e) for e in expected if e is not None]
            assert_same(program(*clone(args)), tensors)
    assert program is not None
    return program


def clone(args: Any) -> Any:
    return torch.utils._pytree.tree_map_only(torch.Tensor, torch.Tensor.clone, args)


def _session(model: Any) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = torch.get_num_threads()
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(model, options)
