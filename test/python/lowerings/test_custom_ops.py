"""Runs the snippets of docs/custom-ops.md."""

from __future__ import annotations

import pathlib
import re

import numpy as np
import onnx
import onnx_native
import onnxruntime
import torch

PAGE = pathlib.Path(__file__).parents[3] / "docs" / "custom-ops.md"


def snippets() -> list[str]:
    return re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)


class Increased(torch.nn.Module):
    """The page's operator that writes to its argument."""

    def forward(self, x):
        y = x.clone()
        torch.ops.docs.increase_(y, 2.0)
        return y * x


def test_snippets_of_the_page() -> None:
    lower, write, keep, symbolic, table = snippets()
    scope: dict[str, object] = {}
    try:
        exec(compile(lower, str(PAGE), "exec"), scope)
        program = scope["program"]
        assert isinstance(program, torch.onnx.ONNXProgram)
        proto = program.model_proto
        onnx.checker.check_model(proto, full_check=True)
        assert [node.op_type for node in proto.graph.node] == ["Gelu", "Mul"]
        x = torch.randn(2, 4)
        session = onnxruntime.InferenceSession(proto.SerializeToString())
        (result,) = session.run(None, {session.get_inputs()[0].name: x.numpy()})
        np.testing.assert_allclose(result, 0.5 * torch.nn.functional.gelu(x), atol=1e-6)

        exec(compile(write, str(PAGE), "exec"), scope)
        program = torch.onnx.export(Increased(), (x,), dynamo=True, verbose=False)
        assert [node.op_type for node in program.model_proto.graph.node] == ["Add", "Mul"]

        exec(compile(keep, str(PAGE), "exec"), scope)
        exec(compile(symbolic, str(PAGE), "exec"), scope)
        exec(compile(table, str(PAGE), "exec"), scope)
    finally:
        onnx_native.remove_lowering("docs::scaled_gelu")
        onnx_native.remove_lowering("docs::increase_")
