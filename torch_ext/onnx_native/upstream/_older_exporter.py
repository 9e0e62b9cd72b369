"""torch.onnx.export and PyTorch's older exporter, which it calls with ``dynamo=False``."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import torch

_MODULES = ("torch.onnx._internal.torchscript_exporter.utils", "torch.onnx.utils")


def modules() -> list[Any]:
    """Returns the modules with the function ``export`` of the older exporter."""
    return [importlib.import_module(name) for name in _MODULES]


def export_function() -> Callable[..., Any]:
    """Returns torch.onnx.export as it is now."""
    function: Callable[..., Any] = torch.onnx.export
    return function


def put_export(function: Callable[..., Any]) -> None:
    """Replaces torch.onnx.export."""
    torch.onnx.export = function
