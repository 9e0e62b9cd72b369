"""Models in half and double precision run in ONNX Runtime with its default optimizations."""

import pathlib
import subprocess
import sys

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from torch import nn

RUN = """
import sys, numpy as np, onnxruntime
data = np.load(sys.argv[2])
for level in (0, 99):
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel(level)
    session = onnxruntime.InferenceSession(sys.argv[1], options)
    (result,) = session.run(None, {session.get_inputs()[0].name: data["x"]})
    expected = data["y"]
    assert (result.dtype, result.shape) == (expected.dtype, expected.shape)
    np.testing.assert_allclose(result, expected, rtol=5e-3, atol=5e-3)
"""


def check(model: nn.Module, x: torch.Tensor, folder: pathlib.Path, **options) -> onnx.ModelProto:
    """Exports the model and runs it in a process of its own, which ONNX Runtime may end."""
    path = folder / "model.onnx"
    torch.onnx.export(model.eval(), (x,), path, dynamo=True, verbose=False, **options)
    np.savez(folder / "data.npz", x=x.numpy(), y=model(x).detach().numpy())
    subprocess.run([sys.executable, "-c", RUN, path, folder / "data.npz"], check=True)
    proto = onnx.load(path)
    onnx.checker.check_model(proto, full_check=True)
    return proto


class Product(nn.Module):
    """A product of a transposed input and a constant."""

    def __init__(self, order: tuple[int, ...], weight: tuple[int, ...], first: bool = False):
        super().__init__()
        self.order, self.first = order, first
        self.weight = nn.Parameter(torch.randn(weight).half())

    def forward(self, x):
        turned = x.permute(self.order)
        return self.weight @ turned if self.first else turned @ self.weight


# ONNX Runtime's default optimizations crash on all of these as they are written.
PRODUCTS = {
    "sequences_first": (Product((1, 0, 2), (4, 5)), (2, 3, 4)),
    "to_the_end": (Product((1, 2, 0), (4, 5)), (4, 2, 3)),
    "four_axes": (Product((1, 2, 0, 3), (4, 5)), (2, 3, 2, 4)),
    "four_axes_to_the_end": (Product((1, 2, 3, 0), (4, 5)), (4, 2, 3, 2)),
    "constant_first": (Product((1, 0, 2), (5, 4), first=True), (4, 2, 3)),
    "matrix_per_head": (Product((1, 2, 0, 3), (3, 4, 5)), (2, 2, 3, 4)),
    "more_batches_of_matrices": (Product((1, 2, 0), (2, 2, 4, 5)), (4, 2, 3)),
}


@pytest.mark.parametrize("name", PRODUCTS)
def test_products_of_transposed_values(name, tmp_path):
    model, shape = PRODUCTS[name]
    check(model, torch.randn(shape).half(), tmp_path)


def test_without_optimizations_too(tmp_path):
    model, shape = PRODUCTS["sequences_first"]
    check(model, torch.randn(shape).half(), tmp_path, optimize=False)


class MergedTransposes(nn.Module):
    """ONNX Runtime moves the first transposition down and merges it with the second."""

    def __init__(self, first: tuple[int, ...], second: tuple[int, ...]):
        super().__init__()
        self.first, self.second = first, second
        self.weight = nn.Parameter(torch.randn(4, 5).half())

    def forward(self, x):
        return x.permute(self.first).relu().half().permute(self.second) @ self.weight


@pytest.mark.parametrize("first", [(0, 2, 1), (1, 0, 2), (2, 0, 1)])
@pytest.mark.parametrize("second", [(1, 0, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0)])
def test_merged_transposes(first, second, tmp_path):
    sizes = [2, 3, 4]  # of the product's operand
    for order in (second, first):
        sizes = [sizes[order.index(axis)] for axis in range(3)]
    check(MergedTransposes(first, second), torch.randn(sizes), tmp_path)


def test_doubles_are_normalized_as_doubles(tmp_path):
    model, x = nn.RMSNorm(4).double(), torch.randn(3, 4).double()
    check(model, x, tmp_path)
    options = onnxruntime.SessionOptions()
    session = onnxruntime.InferenceSession(tmp_path / "model.onnx", options)
    (result,) = session.run(None, {"x": x.numpy()})
    np.testing.assert_allclose(result, model(x).detach().numpy(), rtol=1e-12)


class Attention(nn.Module):
    """Batches first, which PyTorch transposes; a causal mask in float16."""

    def __init__(self):
        super().__init__()
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)

    def forward(self, x):
        n = x.shape[1]
        mask = torch.where(torch.ones(n, n).tril().bool(), 0.0, float("-inf")).to(x.dtype)
        return self.attention(x, x, x, attn_mask=mask, need_weights=False)[0]


def test_attention_with_a_mask(tmp_path):
    torch.manual_seed(0)
    proto = check(
        Attention().half().eval(),
        torch.randn(2, 6, 8).half(),
        tmp_path,
        dynamic_shapes=({0: "batch", 1: "length"},),
        opset_version=20,
    )
    # Every row of the mask has an open element, as in float32.
    assert not {"Greater", "ReduceSum"} & {node.op_type for node in proto.graph.node}
