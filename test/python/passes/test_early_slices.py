"""Rows that nothing uses are not computed: a classifier of the first or the last token."""

from __future__ import annotations

from collections import Counter

import pytest
import torch
from models import running
from passes.test_fusions import export, run
from torch import nn
from torch.nn import functional as F

OPSETS = [20, 23, running.newest_opset()]
SIZES = [(2, 5), (1, 1), (3, 12), (1, 7)]  # batch, sequence
SELECTIONS = {
    "first": lambda x: x[:, 0],
    "last": lambda x: x[:, -1],
    "last, kept": lambda x: x[:, -1:, :],
    "of a batch": lambda x: x[0],
}


class Layer(nn.Module):
    """Attention and a feed-forward network, both with residuals."""

    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(16), nn.LayerNorm(16)
        self.q, self.k, self.v, self.out = (nn.Linear(16, 16) for _ in range(4))
        self.up, self.down = nn.Linear(16, 32), nn.Linear(32, 16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        def heads(x: torch.Tensor) -> torch.Tensor:
            return x.view(*x.shape[:2], 2, 8).transpose(1, 2)

        y = self.norm1(x)
        q, k, v = heads(self.q(y)), heads(self.k(y)), heads(self.v(y))
        y = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
        x = x + self.out(y)
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Classifier(nn.Module):
    def __init__(self, selection: str) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layers = nn.Sequential(Layer(), Layer())
        self.norm, self.head = nn.LayerNorm(16), nn.Linear(16, 3)
        self.select = SELECTIONS[selection]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.select(self.norm(self.layers(x))))


@pytest.mark.parametrize("opset", OPSETS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
@pytest.mark.parametrize("selection", SELECTIONS)
def test_classifiers(selection: str, dtype: torch.dtype, opset: int) -> None:
    module = Classifier(selection).to(dtype).eval()
    example = torch.randn(2, 5, 16).to(dtype)
    early = export(module, (example,), opset)
    late = export(module, (example,), opset, disabled_passes=["early_slices"])
    tolerance = {"rtol": 2e-3, "atol": 1e-2} if dtype == torch.float16 else {}
    for batch, length in SIZES:
        x = torch.randn(batch, length, 16).to(dtype)
        [result], [without] = run(early, [x]), run(late, [x])
        torch.testing.assert_close(result, module(x), **tolerance)
        torch.testing.assert_close(result, without, **tolerance)


def sliced_first(program: torch.onnx.ONNXProgram) -> set[str]:
    """The products whose rows were selected before them."""
    narrow: set[str] = set()
    products = set()
    for node in program.model_proto.graph.node:
        if node.op_type == "Slice" or narrow & set(node.input):
            narrow.update(node.output)
            products.update(name for name in node.input if node.op_type == "MatMul")
    return {name for name in products if name.endswith(".weight.T")}


def test_the_last_layer_computes_one_token() -> None:
    program = export(Classifier("first").eval(), (torch.randn(2, 5, 16),), 23)
    last = {f"layers.1.{name}.weight.T" for name in ("q", "out", "up", "down")}
    assert sliced_first(program) == last


def test_a_token_that_does_not_exist_is_an_error() -> None:
    """Eager fails on an empty sequence too."""
    program = export(Classifier("first").eval(), (torch.randn(2, 5, 16),), 20)
    with pytest.raises(Exception, match="Gather"):
        run(program, [torch.randn(2, 0, 16)])


class Outputs(Classifier):
    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = self.norm(self.layers(x))
        return y, self.head(self.select(y))


def test_rows_that_are_returned_are_computed() -> None:
    program = export(Outputs("first").eval(), (torch.randn(2, 5, 16),), 23)
    operators = Counter(node.op_type for node in program.model_proto.graph.node)
    assert operators["Slice"] == 0
