"""What the package knows of other libraries by name. `decoders` has what concerns transformers."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterable
from types import FunctionType
from typing import Any

import torch

# Packages that register symbolic functions of their own operators when they are imported.
OF_PYTORCH = {"torch", "torchvision", "torchaudio"}
# Functions that show their second argument if their first one is false, as torch._check does.
_CHECKS = {"transformers.utils.import_utils.torch_compilable_check"}


def is_check(function: FunctionType) -> bool:
    """Whether a function raises its second argument as a message if its first one is false."""
    return f"{function.__module__}.{function.__qualname__}" in _CHECKS


def register_caches(model: Any, leaves: Iterable[Any]) -> None:
    """Registers the caches of transformers as pytrees if the program may use them.

    Args:
        model: The program.
        leaves: The leaves of its arguments.
    """
    caches = sys.modules.get("transformers.cache_utils")
    if caches is None:
        return
    if not any(isinstance(leaf, caches.Cache) for leaf in leaves) and not _returns_caches(model):
        return
    try:
        exporter = importlib.import_module("transformers.exporters.exporter_dynamo")
    except ImportError:
        return  # before version 5, transformers registers its caches itself
    for kind in vars(caches).values():
        if isinstance(kind, type) and issubclass(kind, caches.Cache):
            exporter.register_pytree_node(kind)


def _returns_caches(model: Any) -> bool:
    """Whether the model is or contains a model of transformers, which may create caches."""
    modeling = sys.modules.get("transformers.modeling_utils")
    return (
        modeling is not None
        and isinstance(model, torch.nn.Module)
        and any(isinstance(module, modeling.PreTrainedModel) for module in model.modules())
    )
