"""The results of all steps of a loop: rows of one tensor, or pieces of different lengths."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import torch

from onnx_native.rolling._count import text_of
from onnx_native.rolling._roles import NoLoopError, RowOf

Item = Callable[[torch.Tensor], Any]  # returns the number in a tensor as a size


@dataclasses.dataclass(frozen=True)
class Rows:
    """Results that are stacked along axis 0.

    Attributes:
        rows: The tensor.
        are_numbers: Whether the results are integers.
    """

    rows: torch.Tensor
    are_numbers: bool = False
    count = 1  # of the slices that a step gets

    def slices(self, of: RowOf, steps: Any) -> list[torch.Tensor]:
        """The tensors of which the steps of another loop get slices along axis 0."""
        return [_in_order(self.rows, of, steps)]

    def taken(self, slices: Sequence[torch.Tensor], item: Item) -> Any:
        """The result of a step, from the slices that the step gets."""
        (row,) = slices
        return item(row) if self.are_numbers else row

    def at(self, step: int, item: Item) -> Any:
        """The result of a step, counted from 0 or, if it is negative, from the end."""
        return self.taken([self.rows.select(0, step)], item)

    def joined(self, is_stack: bool, axis: int, is_reversed: bool) -> torch.Tensor:
        """All results in one tensor."""
        if self.are_numbers:
            raise NoLoopError("the numbers of all steps are an argument")
        rows = self.rows.flip(0) if is_reversed else self.rows
        at = axis % (rows.dim() if is_stack else rows.dim() - 1)
        rows = rows.movedim(0, at)
        return rows if is_stack else rows.flatten(at, at + 1)


@dataclasses.dataclass(frozen=True)
class Pieces:
    """Results whose size along an axis depends on data, one after the other.

    Attributes:
        whole: The results, concatenated.
        axis: The axis.
        sizes: Their sizes along it, of all steps; None if nothing reads a single one.
    """

    whole: torch.Tensor
    axis: int
    sizes: torch.Tensor | None
    count = 2

    def slices(self, of: RowOf, steps: Any) -> list[torch.Tensor]:
        """See Rows.slices(): where each result begins, and its size."""
        sizes = self._sizes()
        return [_in_order(each, of, steps) for each in (sizes.cumsum(0) - sizes, sizes)]

    def taken(self, slices: Sequence[torch.Tensor], item: Item) -> Any:
        start, size = map(item, slices)
        return self.whole.narrow(self.axis, start, size)

    def at(self, step: int, item: Item) -> Any:
        sizes = self._sizes()
        starts = sizes.cumsum(0) - sizes
        return self.taken([starts.select(0, step), sizes.select(0, step)], item)

    def joined(self, is_stack: bool, axis: int, is_reversed: bool) -> torch.Tensor:
        if is_stack or is_reversed or axis % self.whole.dim() != self.axis:
            raise NoLoopError("the steps of a loop return tensors of different sizes")
        return self.whole

    def padded(
        self, is_batch_first: bool = False, value: float = 0.0, side: str = "right"
    ) -> torch.Tensor:
        """The results as rows, which are as long as the longest one."""
        sizes = self._sizes()
        if self.axis != 0 or side != "right":
            raise NoLoopError("the steps of a loop return tensors of different sizes")
        starts = sizes.cumsum(0) - sizes
        count = torch.arange(sizes.shape[0])
        row = torch.repeat_interleave(count, sizes, output_size=self.whole.shape[0])
        place = torch.arange(self.whole.shape[0]) - starts[row]
        longest = sizes.max().item()
        shape = (sizes.shape[0], longest, *self.whole.shape[1:])
        padded = self.whole.new_full(shape, value).index_put((row, place), self.whole)
        return padded if is_batch_first else padded.transpose(0, 1)

    def _sizes(self) -> torch.Tensor:
        if self.sizes is None:
            raise NoLoopError("the steps of a loop return tensors of different sizes")
        return self.sizes


def _in_order(rows: torch.Tensor, of: RowOf, steps: Any) -> torch.Tensor:
    return narrowed(rows.flip(0) if of.run.is_reversed else rows, 0, of.shift, steps)


def narrowed(value: torch.Tensor, axis: int, start: Any, steps: Any) -> torch.Tensor:
    """Rows of a tensor, which may be all of them."""
    return value if is_whole(value, axis, start, steps) else value.narrow(axis, start, steps)


def is_whole(value: torch.Tensor, axis: int, start: Any, steps: Any) -> bool:
    """Whether rows are all rows of a tensor."""
    return text_of(value.shape[axis]) == text_of(steps) and text_of(start) == "0"
