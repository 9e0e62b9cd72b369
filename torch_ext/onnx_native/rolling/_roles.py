"""The form of a rolled program: its calls and loops, and the roles of the values in them."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import torch

from onnx_native.rolling import _calls
from onnx_native.rolling._calls import Ref, RowView


class NoLoopError(Exception):
    """The recordings do not differ by repetitions of one body; the message says how."""


# The roles of values and numbers.


@dataclasses.dataclass(frozen=True)
class Outer:
    """A value from outside of all loops: an input, a constant, or a result of a call."""

    ref: Ref


@dataclasses.dataclass(frozen=True)
class Of:
    """A result of one step of a loop: the steps are counted from 0, or from the last one, -1."""

    loop: int
    call: int
    path: tuple[int, ...]
    step: int


@dataclasses.dataclass(frozen=True)
class Run:
    """The results of all steps of a loop, in a list.

    Attributes:
        loop: The loop.
        call: The call of the body.
        path: Where the value is in its results.
        is_reversed: Whether the last step is the first of the list.
        rows: The row of the value that is in the list, as (axis, index) of each select.
    """

    loop: int
    call: int
    path: tuple[int, ...]
    is_reversed: bool
    rows: tuple[tuple[int, int], ...] = ()


@dataclasses.dataclass(frozen=True)
class Same:
    """A value of the same step."""

    call: int
    path: tuple[int, ...]


@dataclasses.dataclass(frozen=True)
class Carried:
    """A value of an earlier step: as many steps before as `first` has roles, which the first steps
    get in its place."""

    call: int
    path: tuple[int, ...]
    first: tuple[Any, ...]


@dataclasses.dataclass(frozen=True)
class RowOf:
    """What another loop has in this step, or in the one that is as far from its end.

    Attributes:
        run: The results of all steps of the other loop.
        shift: How many steps later the other loop has it.
    """

    run: Run
    shift: int = 0


@dataclasses.dataclass(frozen=True)
class Number:
    """size + step * (the number of the step) + length * (the length) + plus."""

    size: Any  # as in Size.of, with a Number for each integer that differs; None for no size
    step: int
    length: int
    plus: int

    def has_step_in_size(self) -> bool:
        """Whether the expression of sizes has the number of the step: t / n."""
        return any(each.varies() for each in _numbers_in(self.size))

    def varies(self) -> bool:
        """Whether it differs between steps."""
        return self.step != 0 or self.has_step_in_size()


def _numbers_in(size: Any) -> Iterator[Number]:
    """The rules of numbers in an expression of sizes. See Size.of."""
    if isinstance(size, Number):
        yield size
    elif isinstance(size, _calls.Size):
        yield from _numbers_in(size.of)
    elif isinstance(size, tuple):
        for each in size:
            yield from _numbers_in(each)


@dataclasses.dataclass(frozen=True)
class Values:
    """A list of values."""

    roles: tuple[Any, ...]


def found_in(tree: Any, kind: type[Any]) -> Iterator[Any]:
    """The roles of a kind in roles."""
    if isinstance(tree, kind):
        yield tree
    if isinstance(tree, (tuple, list)):
        for each in tree:
            yield from found_in(each, kind)
    elif isinstance(tree, Values):
        yield from found_in(tree.roles, kind)
    elif isinstance(tree, Carried):
        yield from found_in(tree.first, kind)
    elif isinstance(tree, RowOf):
        yield from found_in(tree.run, kind)
    elif isinstance(tree, RowView):
        yield from found_in(tree.of, kind)


# The rolled program.


@dataclasses.dataclass
class Item:
    """A call with the roles of its leaves. `place` is its number among the calls of no loop."""

    call: _calls.RecordedCall
    roles: list[Any]
    place: int = -1


@dataclasses.dataclass
class Loop:
    """A loop of length + `more` steps.

    Attributes:
        number: Its number.
        more: How many steps it has more than the length.
        body: The calls of a step.
        growing: What steps get from earlier ones and has more rows in each step: the axis, and how
            many.
    """

    number: int
    more: int
    body: list[Item]
    growing: dict[Carried, tuple[int, int]]


@dataclasses.dataclass
class Rolled:
    """A program with its loops. `lowest` is the least length that its recordings agree for.

    The last ones of its `outputs` are written to tensors; see Calls.written.
    """

    items: list[Item | Loop]
    outputs: list[Any]
    written: list[str | int]
    constants: dict[str, torch.Tensor]
    lowest: int
