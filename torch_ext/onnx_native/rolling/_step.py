"""One step of a loop of a rolled program, as the body of a scan."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import torch

from onnx_native.rolling import _calls
from onnx_native.rolling._calls import RowView
from onnx_native.rolling._plan import WITH_WINDOWS, Output, Plan
from onnx_native.rolling._roles import (
    Carried,
    Item,
    Loop,
    NoLoopError,
    Number,
    RowOf,
    Same,
    Values,
)
from onnx_native.upstream import _upstream

if TYPE_CHECKING:
    from onnx_native.rolling._runner import Execution

aten = torch.ops.aten


class Step:
    """One step of a loop, as the body of a scan.

    Attributes:
        results: The results of the calls of the body.
    """

    def __init__(
        self, run: Execution, plan: Plan, given: Sequence[Any], steps: Any, number: Any
    ) -> None:
        """Takes the states, the rows, the rows of other loops and the number of the step.

        Args:
            run: The run of the program.
            plan: The loop.
            given: These tensors, in this order.
            steps: How many steps there are.
            number: The number of the step as a size, if a tensor that grows gives it.
        """
        values = iter(given)
        self.results: dict[int, Any] = {}
        self._run = run
        self._plan = plan
        self._states = {each: [next(values) for _ in each.first] for each in plan.carried}
        self._taken: dict[Any, Any] = {}  # what the step got from states and slices, by its role
        self._rows = {row: next(values) for row in plan.rows}
        self._sequences: dict[RowOf, list[torch.Tensor]] = {}
        for of in plan.sequences:
            count = run.results_of(of.run).count
            self._sequences[of] = [next(values) for _ in range(count)]
        self._number = next(values, None)
        self._number_as_size = number
        self._steps = steps

    def states(self) -> list[torch.Tensor]:
        """The states for the next step."""
        return [
            as_tensor(state)
            for each, states in self._states.items()
            for state in (*states[1:], part(self.results[each.call], each.path))
        ]

    def output(self, output: Output) -> Any:
        """A result of the step. See Plan.outputs."""
        call, path, rows = output
        value = part(self.results[call], path)
        for axis, index in rows:
            value = value.select(axis, index)
        return value

    def run(self, body: Sequence[Item], places: range, dropped: set[int]) -> None:
        """Calls the functions of the items at some places of the loop's body."""
        for i, end in outermost(body, places):
            if end > i:
                enter = functools.partial(self.results.__setitem__, i)
                inner = functools.partial(self.run, body, range(i + 1, end), dropped)
                self.results[end] = self._run.scan(body[i], body[end], self._value, enter, inner)
            elif i not in dropped:
                self.results[i] = self._called(body[i])

    def _called(self, item: Item) -> Any:
        target, roles = item.call.target, item.roles
        if target in WITH_WINDOWS and any(map(_varies, roles)):
            window = self._window(target, roles)
            if window is not None:
                return window
        takes = _takes_tensors(item)
        leaves = (
            self._value(role)
            if tensor or not _varies(role)
            else self._run.number(role, self._size())
            for role, tensor in zip(roles, takes, strict=True)
        )
        return self._run.called(item, leaves)

    def _size(self) -> Any:
        """The number of the step, where a call takes no tensor: as a size that depends on data.

        A tensor that grows has it.
        """
        if self._number_as_size is None:
            assert self._number is not None  # the plan counts
            size = self._run.item(self._number)
            _upstream.check(size >= 0)
            _upstream.check(size < self._steps)
            self._number_as_size = size
        return self._number_as_size

    def _window(self, target: Any, roles: Sequence[Any]) -> Any:
        """Reads or writes a slice by the number of the step, whose width is that of all steps; None
        if it is not."""
        source: Any = None
        stride: Any = None
        end: Any
        if target is aten.narrow.default:
            of, axis, start, width = roles
            is_fixed = width == Number(None, 0, 0, width.plus)
            end = dataclasses.replace(start, plus=start.plus + width.plus) if is_fixed else None
        elif target is aten.slice.Tensor:
            of, axis, start, end, stride = roles
        elif target is aten.slice_scatter.default:
            of, source, axis, start, end, stride = roles
        else:
            of, source, axis, start = roles
            end = dataclasses.replace(start, plus=start.plus + 1)
        is_window = isinstance(start, Number) and isinstance(end, Number)
        is_even = stride is None or stride == Number(None, 0, 0, 1)
        if not is_window or not is_even or dataclasses.replace(end, plus=start.plus) != start:
            return None
        value, along = self._value(of), self._value(axis)
        self._run.check_within(self._plan.loop, end, value.shape[along])
        chosen = torch.arange(end.plus - start.plus) + self._value(start)
        if target in (aten.narrow.default, aten.slice.Tensor):
            return value.index_select(along, chosen)
        rows = self._value(source)
        if target is aten.select_scatter.default:
            rows = rows.unsqueeze(along)
        return value.index_copy(along, chosen, rows)

    def _value(self, role: Any) -> Any:
        if isinstance(role, Same):
            return part(self.results[role.call], role.path)
        if isinstance(role, Carried):
            state = self._states[role][0]
            return self._once(role, lambda: self._number_or_tensor(role, state))
        if isinstance(role, RowOf):
            results = self._run.results_of(role.run)
            return self._once(role, lambda: results.taken(self._sequences[role], self._run.item))
        if isinstance(role, RowView):
            return self._row(role)
        if _varies(role):
            return self._run.number(role, self._number)
        if isinstance(role, Values):
            return [self._value(each) for each in role.roles]
        return self._run.value(role)

    def _once(self, role: Any, taken: Callable[[], Any]) -> Any:
        """What the step gets. A number is read once: it is the same size wherever it is used."""
        if role not in self._taken:
            self._taken[role] = taken()
        return self._taken[role]

    def _number_or_tensor(self, role: Carried, state: torch.Tensor) -> Any:
        return self._run.item(state) if role in self._plan.numbers else state

    def _row(self, row: RowView) -> torch.Tensor:
        if row in self._rows:
            return self._rows[row]
        value, index = self._value(row.of), self._value(row.index)
        if isinstance(index, torch.Tensor):
            return value.index_select(row.axis, index.reshape(1)).squeeze(row.axis)
        return value.select(row.axis, index)


def as_tensor(value: Any) -> torch.Tensor:
    """A copy of what a loop carries or returns; a number becomes a tensor."""
    if isinstance(value, torch.Tensor):
        return value.clone()
    if isinstance(value, (int, torch.SymInt)) and not isinstance(value, bool):
        number: Any = value
        return torch.scalar_tensor(number, dtype=torch.int64)
    raise NoLoopError("a loop carries a value that is neither a tensor nor an integer")


def _varies(role: Any) -> bool:
    return isinstance(role, Number) and role.varies()


def outermost(items: Sequence[Item | Loop], places: range) -> Iterator[tuple[int, int]]:
    """Yields where items begin and end that are in no scan among these places: scans end later."""
    begin = depth = 0
    for i in places:
        item = items[i]
        target = item.call.target if isinstance(item, Item) else None
        if depth == 0:
            begin = i
        depth += (target is _calls.scan_begin) - (target is _calls.scan_end)
        if depth == 0:
            yield begin, i
    if depth:
        raise NoLoopError("a scan does not end in the body that it begins in")


def _takes_tensors(item: Item) -> list[bool]:
    """Whether a call takes a tensor, for each of its leaves."""
    target, args = item.call.target, item.call.args
    if not isinstance(target, _upstream.OpOverload):
        return [False] * len(item.roles)
    parameters = zip(_upstream.schema(target).arguments, args, strict=False)
    takes = [str(each.type) == "Tensor" for each, arg in parameters for _ in _calls.leaves_of(arg)]
    takes += [False] * (len(item.roles) - len(takes))
    return [
        each and not (isinstance(role, Number) and role.has_step_in_size())
        for each, role in zip(takes, item.roles, strict=True)
    ]


def part(value: Any, path: Sequence[int]) -> Any:
    return functools.reduce(lambda whole, index: whole[index], path, value)
