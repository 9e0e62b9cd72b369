"""A model that draws random numbers says so, with the lines, on every route."""

import onnx_native
import pytest
import torch
from torch import nn


class Noise(nn.Module):
    def forward(self, x):
        return x + torch.randn(3)


class Dropout(nn.Module):
    def forward(self, x):
        return nn.functional.dropout(x, training=True)


class LayerInForward(nn.Module):
    def forward(self, x):
        return nn.Linear(3, 2)(x)


class InBranch(nn.Module):
    def forward(self, x):
        if x.sum() > 0:
            return x + torch.rand(3)
        return x * 1.0


def warnings_of(model: nn.Module, capture: str = "auto") -> list[str]:
    with onnx_native.options(capture=capture), pytest.warns(UserWarning, match="random numbers"):
        program = torch.onnx.export(model.eval(), (torch.ones(2, 3),), dynamo=True, verbose=False)
    return [text for text in program.export_report["warnings"] if "random numbers" in text]


@pytest.mark.parametrize("model", [Noise(), Dropout(), LayerInForward(), InBranch()])
def test_lines_that_draw_random_numbers(model):
    (warning,) = warnings_of(model)
    assert "test_random_numbers.py" in warning


@pytest.mark.parametrize("model", [Noise(), torch.jit.script(Noise())])
def test_other_routes(model):
    (warning,) = warnings_of(model, "torch.export")
    assert "RandomNormal" in warning


def test_models_without_random_numbers_are_silent():
    model = nn.Sequential(nn.Linear(3, 2), nn.Dropout()).eval()
    program = torch.onnx.export(model, (torch.ones(2, 3),), dynamo=True, verbose=False)
    assert program.export_report["warnings"] == []
