"""Tensor subclasses that hold other tensors, such as the quantized weights of torchao."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from onnx_native.upstream import _upstream


def plain_tensors(name: str, tensor: Any) -> Iterator[tuple[str, Any]]:
    """The plain tensors that a tensor consists of, with their names: "weight.scale".

    A plain tensor consists of itself.
    """
    if type(tensor) in (torch.Tensor, torch.nn.Parameter) or not _upstream.is_wrapper(tensor):
        yield name, tensor
        return
    for attribute in tensor.__tensor_flatten__()[0]:
        yield from plain_tensors(f"{name}.{attribute}", getattr(tensor, attribute))
