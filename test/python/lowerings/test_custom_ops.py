"""Runs the snippets of docs/custom-ops.md."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_native
import onnxruntime
import torch
from pages import snippets


class Increased(torch.nn.Module):
    """The page's operator that writes to its argument."""

    def forward(self, x):
        y = x.clone()
        torch.ops.docs.increase_(y, 2.0)
        return y * x


def test_snippets_of_the_page() -> None:
    after_each = snippets.steps("docs/custom-ops.md")
    try:
        program = next(after_each)["program"]
        assert isinstance(program, torch.onnx.ONNXProgram)
        proto = program.model_proto
        onnx.checker.check_model(proto, full_check=True)
        assert [node.op_type for node in proto.graph.node] == ["Gelu", "Mul"]
        x = torch.randn(2, 4)
        session = onnxruntime.InferenceSession(proto.SerializeToString())
        (result,) = session.run(None, {session.get_inputs()[0].name: x.numpy()})
        np.testing.assert_allclose(result, 0.5 * torch.nn.functional.gelu(x), atol=1e-6)

        next(after_each)
        program = torch.onnx.export(Increased(), (x,), dynamo=True, verbose=False)
        assert [node.op_type for node in program.model_proto.graph.node] == ["Add", "Mul"]

        assert len(list(after_each)) == 3
    finally:
        onnx_native.remove_lowering("docs::scaled_gelu")
        onnx_native.remove_lowering("docs::increase_")
