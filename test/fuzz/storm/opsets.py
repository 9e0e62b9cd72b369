"""The opsets that the installed ONNX Runtime runs."""

from __future__ import annotations

import functools

import onnx
import onnxruntime


@functools.cache
def newest_opset() -> int:
    """Returns the newest opset that the installed onnx and ONNX Runtime both accept."""
    for opset in range(onnx.defs.onnx_opset_version(), 20, -1):
        x, y = (
            onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [1]) for name in "xy"
        )
        node = onnx.helper.make_node("Identity", ["x"], ["y"])
        graph = onnx.helper.make_graph([node], "g", [x], [y])
        imports = [onnx.helper.make_opsetid("", opset)]
        model = onnx.helper.make_model(graph, opset_imports=imports, ir_version=10)
        try:
            onnxruntime.InferenceSession(model.SerializeToString())
        except Exception:
            continue
        return opset
    return 20
