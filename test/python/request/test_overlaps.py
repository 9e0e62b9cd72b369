"""Inputs of the example that share memory, where the program writes to one of them."""

from __future__ import annotations

import warnings
from typing import Any

import onnx_native
import pytest
import torch
from models.recording import exported
from torch import nn

X = torch.arange(12.0).reshape(3, 4)


class Adding(nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        x.add_(1)
        return x * 2 + y


class Counting(nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x * 2 + y


def warned(module: Any, arguments: tuple[torch.Tensor, ...], capture: str) -> bool:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with onnx_native.options(capture=capture):
            torch.onnx.export(module, arguments, dynamo=True, verbose=False)
    return any("inputs of the example share memory" in str(each.message) for each in caught)


@pytest.mark.parametrize("capture", ["native", "torch.export"])
@pytest.mark.parametrize(
    ("x", "y", "shared"),
    [
        (X, X, True),
        (X, X.clone(), False),
        (X[0], X[1], False),
        (X[:2], X[1:], True),
        (X, X[:, 1:2], True),
        (X[:, :0], X[:, :0], False),
    ],
)
def test_shared_memory(capture: str, x: torch.Tensor, y: torch.Tensor, shared: bool) -> None:
    assert warned(Adding().eval(), (x, y), capture) == shared


def test_scripts_and_modules_that_write_nothing() -> None:
    assert warned(torch.jit.script(Adding().eval()), (X, X), "native")
    assert not warned(Counting().eval(), (X, X), "native")
    assert not warned(torch.jit.script(Counting().eval()), (X, X), "native")


def test_tensors_without_memory() -> None:
    x = torch.empty(3, 4, device="meta")
    exported(Adding().to("meta").eval(), (x, x))
