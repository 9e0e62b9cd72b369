"""Recurrent layers over sequences of dynamic length, which torch.export alone makes static."""

from __future__ import annotations

import warnings
from typing import Any

import onnx_native
import pytest
import torch
from models.running import assert_same
from ops import checking
from torch import Tensor, nn
from torch.export import Dim

pytestmark = pytest.mark.captures("auto", "torch.export")

LAYERS = {
    "tanh": lambda: nn.RNN(3, 2),
    "relu": lambda: nn.RNN(3, 2, nonlinearity="relu", bidirectional=True),
    "stacked": lambda: nn.RNN(3, 2, num_layers=2, bias=False, batch_first=True),
    "gru": lambda: nn.GRU(3, 2, bidirectional=True),
    "lstm": lambda: nn.LSTM(3, 2, num_layers=2, batch_first=True),
}


class Network(nn.Module):
    def __init__(self, layer: nn.Module, mapped: bool) -> None:
        super().__init__()
        self.layer = layer
        self.mapped = mapped

    def forward(self, x: Tensor) -> Tensor:
        if self.mapped:
            x = torch.vmap(lambda row: row * 2)(x)
        outputs: Tensor = self.layer(x)[0]
        return outputs.flip(0) + 1


@pytest.mark.parametrize("mapped", [False, True], ids=["plain", "vmap"])
@pytest.mark.parametrize("layer", LAYERS)
def test_lengths_stay_dynamic(layer: str, mapped: bool) -> None:
    torch.manual_seed(0)
    model = Network(LAYERS[layer](), mapped).eval()
    shapes = ({0: "rows", 1: Dim("columns")},)
    with warnings.catch_warnings():
        warnings.simplefilter("error", torch.onnx.errors.OnnxExporterWarning)
        program = torch.onnx.export(
            model, (torch.randn(4, 5, 3),), dynamo=True, dynamic_shapes=shapes, verbose=False
        )
    assert program is not None
    running = checking.session(program)
    assert running.get_outputs()[0].shape[:2] == ["rows", "columns"]
    for sizes in ((4, 5), (1, 2), (7, 1)):
        x = torch.randn(*sizes, 3)
        assert_same(
            [torch.from_numpy(each) for each in running.run(None, {"x": x.numpy()})], [model(x)]
        )


class Decides(nn.Module):
    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return x * 2 if x.shape[0] == 4 else x + y


def export_specialized(shapes: Any) -> None:
    inputs = (torch.randn(4, 2), torch.randn(1, 2))
    torch.onnx.export(Decides().eval(), inputs, dynamo=True, dynamic_shapes=shapes, verbose=False)


@onnx_native.options(branches="example")
@pytest.mark.parametrize("shapes", [({0: Dim("n")}, None), {"x": {0: Dim("n")}, "y": None}])
def test_a_declared_size_that_becomes_static_is_an_error(shapes: Any) -> None:
    """PyTorch's exporter would try again with the size as a number."""
    with pytest.raises(torch.onnx.OnnxExporterError, match="Constraints violated"):
        export_specialized(shapes)


@onnx_native.options(branches="example")
def test_beside_a_string_torch_export_refuses_a_dim_that_becomes_static() -> None:
    with pytest.raises(torch.onnx.OnnxExporterError, match="Constraints violated"):
        export_specialized({"x": {0: Dim("n"), 1: "m"}, "y": None})
