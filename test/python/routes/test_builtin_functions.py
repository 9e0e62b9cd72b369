"""Builtin functions of PyTorch and Python export as functions of the user do."""

from __future__ import annotations

import functools
import importlib
import operator
from collections.abc import Callable
from typing import Any

import onnx_native
import pytest
import torch

X = torch.rand(3, 4)

FUNCTIONS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "maximum": (torch.maximum, (X, X + 1)),
    "sin": (torch.sin, (X,)),
    "method": (torch.Tensor.exp, (X,)),
    "operator": (operator.add, (X, X)),
    "abs": (abs, (X,)),
    "overload": (torch.ops.aten.relu.default, (X,)),
    "packet": (torch.ops.aten.relu, (X,)),
    "functional": (torch.nn.functional.gelu, (X,)),
    "special": (torch.special.expm1, (X,)),
    "partial": (functools.partial(torch.add, alpha=2), (X, X)),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("compiler", ["without", "with"])
@pytest.mark.parametrize("capture", ["auto", "torch.export"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_builtin_function_exports(name: str, capture: str, compiler: str) -> None:
    if compiler == "with":
        importlib.import_module("torch._dynamo")
    function, args = FUNCTIONS[name]
    with onnx_native.options(capture=capture):
        program = torch.onnx.export(function, args, dynamo=True, verbose=False)
    torch.testing.assert_close(program(*args)[0], function(*args))
