"""Indexing that PyTorch does not leave symbolic: by integers, and with values of dynamic size."""

from __future__ import annotations

from typing import Any

import torch

Axes = list[tuple[int, torch.SymInt]]


def _separated(tensor: torch.Tensor, index: Any) -> tuple[Any, Axes] | None:
    """The index with ``:`` for symbolic integers, and these with their axes in the result.

    None if there are none, or if they meet indices that are not basic.
    """
    entries = index if isinstance(index, tuple) else (index,)
    if not any(isinstance(entry, torch.SymInt) for entry in entries):
        return None
    used = sum(entry is not None and entry is not Ellipsis for entry in entries)
    plain: list[Any] = []
    axes: Axes = []
    axis = 0
    for entry in entries:
        if isinstance(entry, torch.SymInt):
            axes.append((axis, entry))
            entry = slice(None)
        elif isinstance(entry, bool) or not (
            entry is None or entry is Ellipsis or isinstance(entry, (int, slice))
        ):
            return None
        plain.append(entry)
        if entry is Ellipsis:
            axis += tensor.dim() - used
        elif not isinstance(entry, int):
            axis += 1
    return tuple(plain), axes


def _is_mask(index: Any) -> bool:
    return isinstance(index, torch.Tensor) and index.dtype is torch.bool


def _is_basic(index: Any) -> bool:
    entries = index if isinstance(index, tuple) else (index,)
    return all(
        entry is None
        or entry is Ellipsis
        or (isinstance(entry, (int, slice)) and not isinstance(entry, bool))
        for entry in entries
    )


def _is_dynamic(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and any(isinstance(n, torch.SymInt) for n in value.shape)


def get(plain_getitem: Any, tensor: torch.Tensor, index: Any) -> torch.Tensor:
    """``tensor[index]``"""
    separated = _separated(tensor, index)
    if separated is None:
        result: torch.Tensor = plain_getitem(tensor, index)
        return result
    plain, axes = separated
    result = plain_getitem(tensor, plain)
    for axis, position in reversed(axes):
        result = result.select(axis, position)
    return result


def put(plain_getitem: Any, plain_setitem: Any, tensor: torch.Tensor, index: Any, to: Any) -> None:
    """``tensor[index] = to``"""
    if _is_dynamic(to) and _is_mask(index):
        tensor.index_put_((index,), to)
        return
    separated = _separated(tensor, index)
    if separated is None and not (_is_dynamic(to) and _is_basic(index)):
        plain_setitem(tensor, index, to)
        return
    place = get(plain_getitem, tensor, index)
    if _is_dynamic(to) and to.dim() <= place.dim():
        place.copy_(to)
    else:
        plain_setitem(place, Ellipsis, to)
