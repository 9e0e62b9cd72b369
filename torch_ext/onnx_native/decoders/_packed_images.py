"""Images of different sizes in one sequence of patches, without loops over images.

Towers such as Qwen-VL's take the patches of all images as one sequence, with the grid of each
image. transformers' functions for them, `vision_utils`, loop over the grids, and its attention over
parts of the sequence. The functions here compute the same from the positions of the patches, so
that the number of images and their sizes stay inputs.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from contextvars import ContextVar
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from onnx_native import _replaced, _undo
from onnx_native.decoders import _attention_functions

# An attention with this name gets the bounds of the parts in place of one part after the other.
_ATTENTION = "onnx_native_flash_attention"

# The number of patches of all images.
_patches: ContextVar[Any] = ContextVar("onnx_native_patches")


@contextlib.contextmanager
def packed(modules: list[torch.nn.Module], patches: Any) -> Iterator[None]:
    """Replaces transformers' functions for packed images in the code of these modules."""
    from transformers import AttentionInterface, vision_utils

    ours: dict[str, Any] = {
        "get_vision_position_ids": _position_ids,
        "get_vision_window_index": _window_index,
        "get_vision_interpolation_indices_and_weights": _interpolation,
    }
    code = [sys.modules[name] for name in {type(module).__module__ for module in modules}]
    functions = [
        (namespace, name, _replaced.in_this_thread(ours[name], vars(namespace)[name]))
        for namespace in code
        for name in ours
        if vars(namespace).get(name) is getattr(vision_utils, name)
    ]
    AttentionInterface.register(_ATTENTION, _attention)
    before = _patches.get(None)

    def put_back() -> None:
        _patches.set(before)

    with (
        _undo.at_end(put_back),
        _replaced.attributes(functions),
        _attention_functions.choosing(_ATTENTION, modules, ("sdpa", "eager")),
    ):
        _patches.set(patches)
        yield


class _Cells:
    """The cells of the grids of all images, in the order of images, frames, rows and columns."""

    def __init__(self, sizes: torch.Tensor, count: Any) -> None:
        """Finds the place of each cell.

        Args:
            sizes: Frames, height and width of each image.
            count: The number of all cells.
        """
        self.index = torch.arange(count, device=sizes.device)
        counts = sizes.prod(1)
        ends = counts.cumsum(0)
        self.image = (self.index[:, None] >= ends[None, :]).sum(1)
        of_cell = sizes[self.image]
        self.height, self.width = of_cell[:, 1], of_cell[:, 2]
        self.start = (ends - counts)[self.image]
        self.in_image = self.index - self.start
        self.frame = self.in_image // (self.height * self.width)
        self.in_frame = self.in_image % (self.height * self.width)


def _position_ids(
    grid_thw: torch.Tensor,
    spatial_merge_size: Any,
    include_temporal: bool = False,
    kwargs: dict[str, Any] | None = None,
) -> torch.Tensor:
    """Computes `get_vision_position_ids`."""
    if kwargs is not None and (given := kwargs.pop("position_ids", None)) is not None:
        return given  # type: ignore[no-any-return]
    cells = _Cells(grid_thw, _patches.get())
    merge = spatial_merge_size
    if isinstance(merge, torch.Tensor):
        merge = merge[cells.image]
    # Rows and columns of blocks, then those in a block.
    within, area = cells.in_frame % (merge * merge), cells.in_frame // (merge * merge)
    blocks = cells.width // merge
    row = area // blocks * merge + within // merge
    column = area % blocks * merge + within % merge
    positions = [cells.frame, row, column] if include_temporal else [row, column]
    return torch.stack(positions, -1)


def _window_index(
    grid_thw: torch.Tensor,
    spatial_merge_size: int,
    window_size: int,
    patch_size: int,
    kwargs: dict[str, Any] | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Computes `get_vision_window_index`."""
    if kwargs is not None:
        given = kwargs.pop("window_index", None), kwargs.pop("cu_window_seqlens", None)
        if given[0] is not None and given[1] is not None:
            return given
    unit = spatial_merge_size**2
    side = window_size // spatial_merge_size // patch_size
    merged = torch.stack([grid_thw[:, 0], *(grid_thw[:, 1:] // spatial_merge_size).unbind(1)], 1)
    cells = _Cells(merged, _patches.get() // unit)
    row, column = cells.in_frame // cells.width, cells.in_frame % cells.width
    top, left = row // side * side, column // side * side
    height = torch.minimum(cells.height - top, torch.full_like(top, side))
    width = torch.minimum(cells.width - left, torch.full_like(left, side))
    # The cells before the window in its frame, then those before the cell in the window.
    in_window = (row - top) * width + column - left
    frame = cells.start + cells.frame * cells.height * cells.width
    place = frame + top * cells.width + height * left + in_window
    index = torch.zeros_like(place).scatter(0, place, cells.index)
    is_last = torch.zeros_like(place).scatter(0, place, (in_window == height * width - 1).long())
    ends = (is_last.nonzero().squeeze(1) + 1) * unit
    return index, torch.nn.functional.pad(ends, (1, 0)).to(torch.int32)


def _interpolation(grid_thw: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
    """Computes `get_vision_interpolation_indices_and_weights`."""
    from transformers import vision_utils

    with _OfPatches(_Cells(grid_thw, _patches.get())):
        return vision_utils.get_vision_interpolation_indices_and_weights(grid_thw, *args, **kwargs)


class _OfPatches(TorchFunctionMode):
    """Makes what a function repeats for each patch as long as the patches are."""

    def __init__(self, cells: _Cells) -> None:
        super().__init__()
        self._cells = cells

    def __torch_function__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        if function is torch.repeat_interleave:
            return args[0][self._cells.image]
        if function is torch.arange and isinstance(args[0], torch.Tensor):
            return self._cells.index
        return function(*args, **(kwargs or {}))


def _attention(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    scaling: float | None = None,
    cu_seq_lens_q: torch.Tensor | None = None,
    max_length_q: Any = None,
    **others: Any,
) -> tuple[torch.Tensor, None]:
    """Implements transformers' interface of attention functions for parts of a sequence.

    The parts become rows of a batch, as long as the longest part.

    Raises:
        ValueError: It is another attention.
    """
    if attention_mask is not None or cu_seq_lens_q is None or query.shape[1] != key.shape[1]:
        raise ValueError(f"the attention of {type(module).__name__} has another form")
    start, end = cu_seq_lens_q[:-1].long(), cu_seq_lens_q[1:].long()
    longest = torch.arange(max_length_q, device=query.device)
    places = start[:, None] + longest
    is_in = places < end[:, None]
    places = torch.minimum(places, end[:, None] - 1)

    def rows(tensor: torch.Tensor) -> torch.Tensor:
        return tensor[0].transpose(0, 1)[places].transpose(1, 2)

    output = torch.nn.functional.scaled_dot_product_attention(
        rows(query), rows(key), rows(value), attn_mask=is_in[:, None, None], scale=scaling
    )
    position = torch.arange(query.shape[2], device=query.device)
    part = (position[:, None] >= end[None, :]).sum(1)
    return output.transpose(1, 2)[part, position - start[part]][None], None
