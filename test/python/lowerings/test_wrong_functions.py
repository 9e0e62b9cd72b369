"""Wrong functions of PyTorch's ONNX function library are not used as fallbacks."""

import numpy as np
import onnxruntime
import pytest
import torch
from models.calling import Calling
from onnx_native.lowerings import _fallbacks, _onnxscript
from onnx_native.lowerings._lowerings import lowering, remove_lowering
from onnx_native.lowerings._wrong_functions import WRONG_FUNCTIONS
from torch.onnx._internal.exporter import _dispatching

functional = torch.nn.functional
X = torch.arange(81.0).reshape(1, 1, 9, 9)
EMPTY = torch.zeros(2, 0)
# A call of each operator for which the function is wrong.
CALLS = {
    "aten::_upsample_bilinear2d_aa": lambda x: torch.ops.aten._upsample_bilinear2d_aa(
        x.view(1, 1, 9, 9), [3, 3], True, 1.7, 0.9
    ),
    "aten::addmm": lambda x: torch.addmm(x[0, 0, :2, :2], EMPTY, EMPTY.t(), beta=0.2),
    "aten::arange.start_step": lambda x: x[0, 0, 0, :1] + torch.arange(0.1, 1.1, 1.0),
    "aten::avg_pool2d": lambda x: functional.avg_pool2d(x, 3, divisor_override=2),
    "aten::avg_pool3d": lambda x: functional.avg_pool3d(x, (1, 3, 3), divisor_override=2),
    "aten::blackman_window": lambda x: x + torch.blackman_window(1),
    "aten::hamming_window": lambda x: x + torch.hamming_window(9),
    "aten::hann_window": lambda x: x + torch.hann_window(1),
    "aten::split.Tensor": lambda x: x.split(9, 2),
    "aten::unsafe_split.Tensor": lambda x: x.unsafe_split(9, 2),
}


def captured(key):
    return torch.export.export(Calling(CALLS[key]), (X,))


def node_of(program, key):
    op = _fallbacks.overload(key)
    return next(node for node in program.graph.nodes if node.target is op)


@pytest.mark.parametrize("key", WRONG_FUNCTIONS)
def test_is_no_safety_net(key):
    assert _onnxscript.library_function(node_of(captured(key), key)) is None


@pytest.mark.parametrize("key", WRONG_FUNCTIONS)
def test_is_still_wrong(key):
    """Functions that PyTorch has fixed can be removed from the list."""
    program = captured(key)
    node = node_of(program, key)
    function, _ = _dispatching.dispatch(node, _onnxscript._function_library())
    assert function is not None
    lowering(key)(lambda b, *args, **kwargs: _onnxscript.replay_call(b, function, args, kwargs))
    try:
        exported = torch.onnx.export(program, dynamo=True, verbose=False)
        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        running = onnxruntime.InferenceSession(exported.model_proto.SerializeToString(), options)
        results = running.run(None, {running.get_inputs()[0].name: X.numpy()})
        wanted = torch.utils._pytree.tree_leaves(CALLS[key](X))
        with pytest.raises(AssertionError):
            torch.testing.assert_close(
                [torch.from_numpy(np.asarray(each)) for each in results], wanted
            )
    finally:
        remove_lowering(key)
