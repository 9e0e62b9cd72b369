"""Writes to tensors that a trace recorded as constants.

The trace holds the tensors themselves, so its constants have their values after the writes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import onnx_native
import pytest
import torch
from torch import Tensor, nn

from jit.running import check

KEPT = torch.zeros(3)


def running_total(x: Tensor) -> Tensor:
    total = torch.tensor(0.0)
    total += x.sum()
    return total * x


def through_a_view(x: Tensor) -> Tensor:
    y = torch.tensor([1.0, 2.0, 3.0])
    y[:2].mul_(x[0])
    return y + x


def global_tensor(x: Tensor) -> Tensor:
    KEPT.add_(x)
    return KEPT * 2


def filled(x: Tensor) -> Tensor:
    y = x.new_tensor([1.0, 2.0, 3.0])
    y[1] = 5.0
    return y * x


def copied(x: Tensor) -> Tensor:
    y = torch.tensor([1.0, 2.0, 3.0]).clone()
    y[:2].mul_(x[0])
    return y + x


def created(x: Tensor) -> Tensor:
    total = torch.zeros(())
    total += x.sum()
    return total * x


def only_read(x: Tensor) -> Tensor:
    weights = torch.tensor([1.0, 2.0, 3.0])
    y = x + weights
    y.mul_(weights)
    return y


class Calling(nn.Module):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x)


def traced(function: Callable[..., Any]) -> torch.jit.ScriptModule:
    module: torch.jit.ScriptModule = torch.jit.trace(
        Calling(function).eval(), (torch.ones(3),), check_trace=False
    )
    return module


@pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning")
@pytest.mark.parametrize("state", [False, True])
@pytest.mark.parametrize("function", [running_total, through_a_view, global_tensor, filled])
def test_writes_to_constants_are_refused(function: Callable[..., Any], state: bool) -> None:
    module = traced(function)
    with (
        onnx_native.options(state=state),
        pytest.raises(torch.onnx.OnnxExporterError, match="the trace recorded as a constant"),
    ):
        torch.onnx.export(module, (torch.ones(3),), dynamo=True, verbose=False)


@pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning")
@pytest.mark.parametrize("function", [copied, created, only_read])
def test_other_writes(function: Callable[..., Any]) -> None:
    module = traced(function)
    x = torch.tensor([0.5, -2.0, 3.0])
    torch.testing.assert_close(module(x), function(x))  # the trace is right
    check(module, [(torch.ones(3),), (x,)])
