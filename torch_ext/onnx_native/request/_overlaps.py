"""Inputs of the example that share memory. A model takes each input as a tensor of its own."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import torch

from onnx_native.upstream import _upstream


def warnings_of(arguments: Any, written: Sequence[str]) -> list[str]:
    """Returns a warning if the program writes to memory that is another input's too.

    Args:
        arguments: The example's arguments, in any structure.
        written: Names of the inputs to which the program writes.
    """
    if not written:
        return []
    ranges = sorted(
        _range(leaf)
        for leaf in _upstream.pytree.tree_leaves(arguments)
        if isinstance(leaf, torch.Tensor) and leaf.layout is torch.strided and _has_memory(leaf)
    )
    if not any(start < end for (_, end), (start, _) in itertools.pairwise(ranges)):
        return []
    return [
        f"the program writes to input {', '.join(written)}, and inputs of the example share "
        "memory; in the model each input is a tensor of its own, so its results may differ\n"
        "  hint: pass one input in place of both, or a clone() of one"
    ]


def _has_memory(tensor: torch.Tensor) -> bool:
    return tensor.numel() > 0 and tensor.untyped_storage().data_ptr() != 0


def _range(tensor: torch.Tensor) -> tuple[int, int]:
    """Returns the addresses of the tensor's first byte and of the end of its last element."""
    steps = zip(tensor.shape, tensor.stride(), strict=True)
    last = sum((size - 1) * stride for size, stride in steps)
    return tensor.data_ptr(), tensor.data_ptr() + (last + 1) * tensor.itemsize
