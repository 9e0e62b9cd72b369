"""A model that draws random numbers says so, with the lines, on every route."""

import pickle
import random
from random import uniform
from typing import Any

import numpy as np
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


class OfPython(nn.Module):
    def forward(self, x):
        return x * random.random()


class OfNumpy(nn.Module):
    def forward(self, x):
        return x * float(np.random.rand())


class OfGenerator(nn.Module):
    def forward(self, x):
        return x * float(np.random.default_rng().random())


class OfFunction(nn.Module):
    def forward(self, x):
        return x * uniform(1, 2)


class Seeded(nn.Module):
    def forward(self, x):
        random.seed(3)
        np.random.seed(4)
        number = random.random() + float(np.random.rand())
        number += float(np.random.default_rng(5).random()) + random.Random(6).random()
        return x * number


def states() -> tuple[Any, ...]:
    return random.getstate(), pickle.dumps(np.random.get_state()), bytes(torch.get_rng_state())


@pytest.mark.parametrize("capture", ["auto", "torch.export"])
@pytest.mark.parametrize(
    ("model", "library"), [(OfPython(), "Python"), (OfNumpy(), "NumPy"), (OfGenerator(), "NumPy")]
)
def test_numbers_that_python_and_numpy_draw(model, library, capture):
    before = states()
    warning = "\n".join(warnings_of(model, capture))
    assert f"the random numbers that {library} drew during the export are constants" in warning
    assert "\n  test_random_numbers.py:" in warning
    assert states() == before


def test_a_draw_at_an_unknown_line():
    (warning,) = warnings_of(OfFunction())
    assert "that Python drew" in warning
    assert "an unknown line" in warning


@pytest.mark.parametrize("capture", ["auto", "torch.export"])
def test_seeded_numbers_of_python_and_numpy_are_constants(capture):
    before, model, x = states(), Seeded().eval(), torch.ones(2, 3)
    with onnx_native.options(capture=capture):
        program = torch.onnx.export(model, (x,), dynamo=True, verbose=False)
    assert states() == before
    assert program.export_report["warnings"] == []
    torch.testing.assert_close(program(x)[0], model(x))


class SeededAgain(nn.Module):
    def forward(self, x):
        torch.manual_seed(torch.initial_seed())
        return x + torch.rand(3)


def test_the_initial_seed():
    x = torch.ones(2, 3)
    with torch.random.fork_rng():
        torch.manual_seed(7)
        before = states()
        program = torch.onnx.export(SeededAgain().eval(), (x,), dynamo=True, verbose=False)
        assert states() == before
        torch.testing.assert_close(program(x)[0], SeededAgain()(x))
