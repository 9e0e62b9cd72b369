"""A tensor of the example that is passed twice is two inputs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import onnx_native
import pytest
import torch
from torch import Tensor, nn

X = torch.arange(4.0)


class Scaled(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(4))
        self.register_buffer("bias", torch.ones(4))

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return x * self.weight - y * self.bias / 2


def difference(x: Tensor, y: Tensor) -> Tensor:
    return x - y / 2


def of_keys(given: dict[str, Tensor], z: Tensor) -> Tensor:
    return given["a"] - given["b"] / 2 + z * 3


def writes(x: Tensor, y: Tensor) -> Tensor:
    x = x.clone()
    x.add_(1)
    return x - y / 2


scaled = Scaled().eval()
CASES: dict[str, tuple[Callable[..., Tensor], tuple[Any, ...], tuple[Any, ...]]] = {
    "two": (difference, (X, X), (X, 10 * X)),
    "in a dict": (of_keys, ({"a": X, "b": X}, X), ({"a": X, "b": X + 1}, X + 2)),
    "writes": (writes, (X, X), (X, 10 * X)),
    "a parameter": (scaled, (scaled.weight, X), (X + 1, X)),
    "a buffer": (scaled, (X, scaled.bias), (X, X + 1)),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("capture", ["auto", "torch.export"])
@pytest.mark.parametrize("is_dynamic", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_each_is_an_input(name: str, is_dynamic: bool, capture: str) -> None:
    model, example, other = CASES[name]
    shapes = None
    if is_dynamic:
        dynamic = {0: "n" if model is not scaled else torch.export.Dim.STATIC}
        shapes = torch.utils._pytree.tree_map(lambda _: dynamic, example)
    with onnx_native.options(capture=capture):
        program = torch.onnx.export(
            model, example, dynamo=True, verbose=False, dynamic_shapes=shapes
        )
    torch.testing.assert_close(program(*other)[0], model(*other).detach())
    torch.testing.assert_close(program(*example)[0], model(*example).detach())
