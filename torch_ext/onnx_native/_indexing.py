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


def _number(bound: Any) -> Any:
    return bound.item() if isinstance(bound, torch.Tensor) else bound


def _with_numbers(index: Any) -> Any:
    """The index with symbolic integers for the 0-d tensors that bound its slices."""
    if isinstance(index, tuple):
        return tuple(map(_with_numbers, index))
    if not isinstance(index, slice):
        return index
    return slice(_number(index.start), _number(index.stop), _number(index.step))


def _is_whole(entry: Any) -> bool:
    return isinstance(entry, slice) and entry.start is entry.stop is entry.step is None


def _advanced(tensor: torch.Tensor, index: Any, to: Any) -> list[torch.Tensor | None] | None:
    """The index as aten::index_put_ takes it, if it consists of tensors and ``:`` alone.

    Python's assignment asks first whether the first sizes of the values are 1.
    """
    entries = index if isinstance(index, tuple) else (index,)
    if not all(isinstance(entry, torch.Tensor) or _is_whole(entry) for entry in entries):
        return None
    found = [entry for entry in entries if isinstance(entry, torch.Tensor)]
    if not found:
        return None
    used = sum(entry.dim() if _is_mask(entry) else 1 for entry in found)
    rank = tensor.dim() - used + max(1 if _is_mask(entry) else entry.dim() for entry in found)
    if to.dim() > rank:
        return None
    return [entry if isinstance(entry, torch.Tensor) else None for entry in entries]


def get(plain_getitem: Any, tensor: torch.Tensor, index: Any) -> torch.Tensor:
    """``tensor[index]``"""
    index = _with_numbers(index)
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
    index = _with_numbers(index)
    advanced = _advanced(tensor, index, to) if _is_dynamic(to) else None
    if advanced is not None:
        torch.ops.aten.index_put_(tensor, advanced, to)
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


def narrow(plain_narrow: Any, tensor: torch.Tensor, dim: Any, start: Any, length: Any) -> Any:
    """``tensor.narrow(dim, start, length)``, whose start may be a tensor."""
    return plain_narrow(tensor, dim, _number(start), _number(length))
