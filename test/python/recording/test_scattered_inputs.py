"""Inputs that are not contiguous in the example. Those of a model are."""

from __future__ import annotations

import pathlib
from collections.abc import Callable
from typing import Any

import onnx_native
import pytest
import torch
from models.recording import assert_equal_to_eager, exported
from torch import nn

Error = torch.onnx.errors.OnnxExporterError

TRANSPOSED = torch.arange(12.0).view(4, 3).T
EXPANDED = torch.arange(4.0).expand(3, 4)
PART = torch.arange(24.0).view(4, 6)[:, 1:4]


class Function(nn.Module):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor) -> Any:
        return self.function(x)


def strided(x: torch.Tensor) -> torch.Tensor:
    return x.as_strided((2, 2), (1, 3))


def strided_copy(x: torch.Tensor) -> torch.Tensor:
    return (x * 2).as_strided((2, 2), (1, 3))


@pytest.mark.parametrize("capture", ["native", "torch.export"])
@pytest.mark.parametrize(
    ("function", "x"),
    [
        (strided, TRANSPOSED),
        (strided, EXPANDED),
        (strided, PART),
        (strided_copy, TRANSPOSED),
    ],
)
def test_their_memory_is_not_in_the_model(
    function: Callable[..., Any], x: torch.Tensor, capture: Any
) -> None:
    with pytest.raises(Error, match="strides"), onnx_native.options(capture=capture):
        torch.onnx.export(Function(function), (x,), dynamo=True, verbose=False)


def test_an_archive_says_how_they_lie(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "model.pt2"
    for x in (TRANSPOSED, TRANSPOSED.contiguous()):
        torch.export.save(torch.export.export(Function(strided), (x,)), path)
        status = onnx_native._C.command_line([str(path), "-o", str(tmp_path / "model.onnx")])
        assert (status == 0) == x.is_contiguous()


def test_contiguous_inputs_have_strides() -> None:
    module = Function(strided)
    program = exported(module, (TRANSPOSED.contiguous(),))
    assert_equal_to_eager(program, module, (torch.randn(3, 4),))


def writes(x: torch.Tensor) -> Any:
    y = x.contiguous()
    y.add_(1)
    z = x.reshape(-1)
    z.mul_(2)
    return x * 1, y, z


@pytest.mark.parametrize(
    "x", [TRANSPOSED, PART, torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last)]
)
@pytest.mark.parametrize("capture", ["native", "torch.export"])
def test_copies_of_them_are_no_views(x: torch.Tensor, capture: Any) -> None:
    module = Function(writes)
    with onnx_native.options(capture=capture):
        program: Any = torch.onnx.export(module, (x.clone(),), dynamo=True, verbose=False)
    for wanted, found in zip(module(x.clone()), program(x), strict=True):
        torch.testing.assert_close(found, wanted)


def features(x: torch.Tensor) -> torch.Tensor:
    y = torch.relu_(torch.conv2d(x, torch.ones(4, 3, 3, 3), padding=1))
    y[:, 1:] += 1
    return torch.relu_(y.mean((2, 3)).flatten(1) - 2)


@pytest.mark.parametrize("capture", ["native", "torch.export"])
def test_images_may_have_their_channels_last(capture: Any) -> None:
    x = torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last)
    module = Function(features)
    with onnx_native.options(capture=capture):
        program: Any = torch.onnx.export(module, (x,), dynamo=True, verbose=False)
    torch.testing.assert_close(program(x)[0], module(x))
