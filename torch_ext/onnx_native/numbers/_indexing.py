"""Indexing that PyTorch does not leave symbolic: by integers, and with values of dynamic size."""

from __future__ import annotations

from typing import Any

import torch

from onnx_native import _library


def _is_mask(index: Any) -> bool:
    return isinstance(index, torch.Tensor) and index.dtype in (torch.bool, torch.uint8)


def _is_scalar_mask(index: Any) -> bool:
    return _is_mask(index) and index.dim() == 0


def _covered(entry: Any) -> int:
    """The number of the tensor's axes that an entry of an index stands for."""
    if entry is None or isinstance(entry, bool):
        return 0
    if isinstance(entry, (list, tuple)):
        entry = torch.as_tensor(entry)
    return entry.dim() if _is_mask(entry) else 1


def _entries(index: Any) -> tuple[Any, ...]:
    return index if isinstance(index, tuple) else (index,)


def _is_integer(entry: Any) -> bool:
    return isinstance(entry, (int, torch.SymInt)) and not isinstance(entry, bool)


def _must_select(index: Any) -> bool:
    return any(
        isinstance(entry, torch.SymInt) or _is_scalar_mask(entry) for entry in _entries(index)
    )


def _selected(tensor: torch.Tensor, index: Any) -> tuple[torch.Tensor, Any]:
    """The tensor at the integers of the index, and the index without them.

    As PyTorch selects ``i`` in ``x[:, i, :, [0]]`` before it gathers. A mask without dimensions
    gets one, and so does the tensor there.
    """
    entries = _entries(index)
    rest = tensor.dim() - sum(_covered(entry) for entry in entries if entry is not Ellipsis)
    kept: list[Any] = []
    axis = 0
    for entry in entries:
        if _is_integer(entry):
            tensor = tensor.select(axis, entry)
            continue
        if _is_scalar_mask(entry):
            tensor, entry = tensor.unsqueeze(axis), entry.reshape(1)
        axis += rest if entry is Ellipsis else _covered(entry)
        kept.append(entry)
    return tensor, tuple(kept)


def _is_basic(index: Any) -> bool:
    return all(
        entry is None or entry is Ellipsis or isinstance(entry, slice) or _is_integer(entry)
        for entry in _entries(index)
    )


def _is_dynamic(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and any(isinstance(n, torch.SymInt) for n in value.shape)


def _is_number(entry: Any) -> bool:
    return isinstance(entry, torch.Tensor) and entry.dim() == 0 and not _is_mask(entry)


def _number(bound: Any) -> Any:
    return bound.item() if isinstance(bound, torch.Tensor) else bound


def _with_numbers(index: Any) -> Any:
    """The index with symbolic integers for recorded 0-d tensors, also those that bound slices."""
    if isinstance(index, tuple):
        return tuple(map(_with_numbers, index))
    if _is_number(index) and _library.extension().is_recorded(index):
        return index.item()
    if not isinstance(index, slice):
        return index
    return slice(_number(index.start), _number(index.stop), _number(index.step))


def _is_whole(entry: Any) -> bool:
    return isinstance(entry, slice) and entry.start is entry.stop is entry.step is None


def _advanced(tensor: torch.Tensor, index: Any, to: Any) -> list[torch.Tensor | None] | None:
    """The index as aten::index_put_ takes it, if it consists of tensors and ``:`` alone.

    Python's assignment asks first whether the first sizes of the values are 1.
    """
    entries = _entries(index)
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
    if _must_select(index):
        tensor, index = _selected(tensor, index)
        if all(entry is Ellipsis or _is_whole(entry) for entry in index):
            return tensor
    result: torch.Tensor = plain_getitem(tensor, index)
    return result


def put(plain_getitem: Any, plain_setitem: Any, tensor: torch.Tensor, index: Any, to: Any) -> None:
    """``tensor[index] = to``"""
    index = _with_numbers(index)
    if _must_select(index) or (_is_dynamic(to) and not _is_basic(index)):
        tensor, index = _selected(tensor, index)
    advanced = _advanced(tensor, index, to) if _is_dynamic(to) else None
    if advanced is not None:
        torch.ops.aten.index_put_(tensor, advanced, to)
        return
    if not (_is_dynamic(to) and _is_basic(index)):
        plain_setitem(tensor, index, to)
        return
    place = plain_getitem(tensor, index)
    if to.dim() <= place.dim():
        place.copy_(to)
    else:
        plain_setitem(place, Ellipsis, to)


def narrow(plain_narrow: Any, tensor: torch.Tensor, dim: Any, start: Any, length: Any) -> Any:
    """``tensor.narrow(dim, start, length)``, whose start may be a tensor."""
    return plain_narrow(tensor, dim, _number(start), _number(length))
