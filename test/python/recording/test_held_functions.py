"""Functions that a capture replaces, where a program keeps them by a name."""

from __future__ import annotations

import math
from collections.abc import Callable
from math import sqrt
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from models.recording import assert_native, exported
from torch import nn
from torch.nn.attention.bias import causal_lower_right, causal_upper_left
from torch.nn.functional import scaled_dot_product_attention as attention
from torch.overrides import TorchFunctionMode

X = torch.randn(2, 2, 8, 8, generator=torch.Generator().manual_seed(0))
pooled = F.max_pool2d


class Compares(nn.Module):
    """Takes another way where a function or class is another one."""

    def __init__(self, function: Any, named: Callable[[], Any]) -> None:
        super().__init__()
        self.function, self.named = function, named

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * 2 if self.function is self.named() else x + 1


@pytest.mark.parametrize(
    ("function", "named"),
    [
        (F.max_pool2d, lambda: F.max_pool2d),
        (F.max_pool2d, lambda: pooled),
        (torch.hann_window, lambda: torch.hann_window),
        (torch.tensor, lambda: torch.tensor),
        (F.scaled_dot_product_attention, lambda: attention),
        (math.sqrt, lambda: sqrt),
        (int, lambda: int),
        (float, lambda: float),
        (F.relu, lambda: F.relu),
    ],
)
def test_a_function_in_an_attribute_is_the_one_with_its_name(
    function: Any, named: Callable[[], Any]
) -> None:
    module = Compares(function, named).eval()
    program = exported(module, (X,), ({0: "n"},))
    torch.testing.assert_close(program(X)[0], X * 2)
    assert module.function is function
    assert sqrt is math.sqrt


class TakesSizes(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.window = torch.hann_window

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.window(x.shape[0]) / sqrt(x.shape[0])


def test_functions_that_are_kept_or_imported_take_sizes() -> None:
    module, x = TakesSizes().eval(), torch.randn(5)
    program = exported(module, (x,), ({0: "n"},))
    assert_native(program)
    for each in (x, torch.randn(9)):
        torch.testing.assert_close(program(each)[0], module(each))


class Biased(nn.Module):
    def __init__(self, bias: Callable[..., Any], queries: int) -> None:
        super().__init__()
        self.bias, self.queries = bias, queries

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        mask = self.bias(self.queries, x.shape[2])
        return F.scaled_dot_product_attention(x[:, :, : self.queries], x, x, attn_mask=mask)


@pytest.mark.parametrize("bias", [causal_lower_right, causal_upper_left])
@pytest.mark.parametrize("queries", [2, 8])
def test_a_tensor_whose_class_overrides_attention(bias: Any, queries: int) -> None:
    module = Biased(bias, queries).eval()
    program = exported(module, (X,), ({0: "n"},))
    assert_native(program)
    for x in (X, torch.randn(3, 2, 8, 8)):
        torch.testing.assert_close(program(x)[0], module(x))


class Halves(TorchFunctionMode):
    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        return result / 2 if func is F.scaled_dot_product_attention else result


class InMode(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with Halves():
            return F.scaled_dot_product_attention(x, x, x)


def test_a_mode_of_the_program_that_overrides_attention() -> None:
    program = exported(InMode().eval(), (X,), ({0: "n"},))
    for x in (X, torch.randn(3, 2, 8, 8)):
        torch.testing.assert_close(program(x)[0], InMode()(x))
