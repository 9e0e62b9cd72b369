"""How a loop of a rolled program becomes a scan."""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

import torch

from onnx_native.recording import _recorded_program
from onnx_native.rolling._calls import RowView
from onnx_native.rolling._roles import (
    Carried,
    Item,
    Loop,
    NoLoopError,
    Number,
    Of,
    Outer,
    Rolled,
    RowOf,
    Run,
    Same,
    found_in,
)
from onnx_native.upstream import _upstream

aten = torch.ops.aten


@dataclasses.dataclass
class Write:
    """The steps write values to the rows of a tensor, which nothing reads before the loop ends.

    Attributes:
        row: The row that a step writes to.
        value: What it writes.
        call: The call of the body that writes.
    """

    row: RowView
    value: Same
    call: int


# A result of steps: the call of the body, the path in its results, and the row of the value.
Output = tuple[int, tuple[int, ...], tuple[tuple[int, int], ...]]


class Plan:
    """A loop as a scan.

    Attributes:
        loop: The loop.
        carried: What each step gets from earlier ones.
        numbers: Which of them are integers; the runner adds them.
        rows: The rows of values from before the loop that steps get.
        sequences: The results of other loops of which steps get a row.
        counts: Whether steps need their number.
        outputs: The results of steps that later calls use, as (call, path, rows). See Run.
        read: The outputs that later calls read by their steps, and do not only concatenate.
        writes: The writes in place of which the results of steps are stacked.
        dropped: The calls of the body that the scan does without.
        decisions: The decisions of the steps.
    """

    def __init__(self, loop: Loop, results: Sequence[Of | Run]) -> None:
        """Plans a loop, of which the program uses these results."""
        self.loop = loop
        self.carried: list[Carried] = []
        self.numbers: set[Carried] = set()
        self.rows: list[RowView] = []
        self.sequences: list[RowOf] = []
        self.counts = False
        self.outputs: list[Output] = []
        self.read: set[Output] = set()
        self.writes: list[Write] = []
        self.dropped: set[int] = set()
        self.decisions: list[Item] = []
        self._results = results
        self._users = collections.Counter(
            (each.call, type(each))
            for item in loop.body
            for kind in (Same, Carried)
            for each in found_in(item.roles, kind)
        )
        for i, item in enumerate(loop.body):
            self._add(i, item)
        written = {write.call for write in self.writes}
        for each in self._results:
            if each.call not in written and not self._is_carried(each):
                self._emit(each.call, each.path, each.rows if isinstance(each, Run) else ())
                if isinstance(each, Of):
                    self.read.add((each.call, each.path, ()))
        for write in self.writes:
            self._emit(write.value.call, write.value.path, ())

    def _is_carried(self, each: Of | Run) -> bool:
        """Whether a result of the loop is one of the last ones, which it carries."""
        return isinstance(each, Of) and any(
            (carried.call, carried.path) == (each.call, each.path)
            and -len(carried.first) <= each.step < 0
            for carried in self.carried
        )

    def _emit(self, *output: Any) -> None:
        if output not in self.outputs:
            self.outputs.append(output)

    def _add(self, i: int, item: Item) -> None:
        target, roles = item.call.target, item.roles
        if target is _recorded_program.decided:
            self.decisions.append(item)
            self.dropped.add(i)
            return
        if target is aten.select_scatter.default and self._is_write(i, roles):
            return
        for each in found_in(roles, Carried):
            if each not in self.carried:
                self.carried.append(each)
        for sequence in found_in(roles, RowOf):
            if sequence not in self.sequences:
                self.sequences.append(sequence)
        for row in found_in(roles, RowView):
            if not row.index.step:
                continue
            if not isinstance(row.of, (Outer, Of)):
                self.counts = True
            elif row not in self.rows:
                self.rows.append(row)
        if any(isinstance(role, Number) and role.varies() for role in roles):
            if not isinstance(target, _upstream.OpOverload):
                raise NoLoopError(f"the number of a step is an argument of {target}")
            self.counts = True

    def _is_write(self, i: int, roles: Sequence[Any]) -> bool:
        """Notes a write of the steps to the rows of a tensor that they do not read."""
        to, value, axis, index = roles
        if not isinstance(to, Carried) or (to.call, to.path, len(to.first)) != (i, (), 1):
            return False
        is_read = self._users[i, Carried] > 1 or self._users[i, Same] > 0
        is_result = all(
            isinstance(each, Of) and each.step == -1 for each in self._results if each.call == i
        )
        if is_read or not is_result or not isinstance(value, Same) or abs(index.step) != 1:
            return False
        self.writes.append(Write(RowView(to.first[0], axis.plus, index), value, i))
        self.dropped.add(i)
        return True


# The calls that take a slice by the number of a step.
WITH_WINDOWS = (
    aten.select_scatter.default,
    aten.slice.Tensor,
    aten.narrow.default,
    aten.slice_scatter.default,
)


def plans(program: Rolled) -> dict[int, Plan]:
    """Plans all loops, by their numbers; raises NoLoopError."""
    loops = [item for item in program.items if isinstance(item, Loop)]
    results: dict[int, list[Of | Run]] = {loop.number: [] for loop in loops}
    everything = list(_all_roles(program))
    for kind in (Of, Run):
        for each in found_in(everything, kind):
            results[each.loop].append(each)
    found = {loop.number: Plan(loop, results[loop.number]) for loop in loops}
    for item in _all_items(program):
        for run in found_in(item.roles, Run):
            if item.call.target is not aten.cat.default:
                found[run.loop].read.add((run.call, run.path, run.rows))
    return found


def _all_items(program: Rolled) -> Iterator[Item]:
    for item in program.items:
        yield from item.body if isinstance(item, Loop) else [item]


def _all_roles(program: Rolled) -> Iterator[Any]:
    yield from (item.roles for item in _all_items(program))
    yield program.outputs
