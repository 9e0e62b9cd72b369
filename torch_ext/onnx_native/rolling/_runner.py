"""Runs a rolled program on recorded tensors: its loops become scans."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch

from onnx_native import _library
from onnx_native.recording import _recorded_program
from onnx_native.rolling import _calls
from onnx_native.rolling._calls import RowView
from onnx_native.rolling._count import Count, text_of
from onnx_native.rolling._plan import WITH_WINDOWS, Output, Plan, Write, plans
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
    Values,
)
from onnx_native.upstream import _upstream

if TYPE_CHECKING:
    from onnx_native._C import Capture

aten = torch.ops.aten


class Runner:
    """Runs a rolled program while it is recorded.

    Attributes:
        count: What its loops count.
    """

    def __init__(
        self,
        program: Rolled,
        count: Count,
        others: Sequence[tuple[str, int, list[str]]],
        state: Mapping[str, torch.Tensor],
    ) -> None:
        """Plans the scans.

        Args:
            program: The program.
            count: What its loops count.
            others: What lines() says of the loops over other sizes, which are scans already.
            state: The tensors of the module by their names.

        Raises:
            NoLoopError: A loop is no scan.
        """
        self.count = count
        self._program = program
        self._others = others
        self._state = state
        self._plans = plans(program)

    def __call__(self, native: Capture, inputs: Sequence[Any]) -> list[Any]:
        """Returns the results.

        Raises:
            NoLoopError: The program decides otherwise for the sizes of the example.
        """
        results = _Run(native, self._program, self._plans, inputs, self.count).results()
        written = self._program.written
        if not written:
            return results
        # A result may be a tensor as it was before.
        results = [each.clone() if isinstance(each, torch.Tensor) else each for each in results]
        values = [results.pop() for _ in written][::-1]
        for target, value in zip(written, values, strict=True):
            tensor = self._state[target] if isinstance(target, str) else inputs[target]
            self._write(native, tensor, value)
        return results

    def _write(self, native: Capture, tensor: torch.Tensor, value: torch.Tensor) -> None:
        """Writes to a tensor of the module or an input, or replaces a buffer."""
        same_shape = list(map(text_of, tensor.shape)) == list(map(text_of, value.shape))
        if same_shape and tensor.dtype == value.dtype:
            with torch.no_grad():
                tensor.copy_(value)
        else:
            native.add_mutation(tensor, value)

    def lines(self) -> list[tuple[str, int, list[str]]]:
        """The loops that were rolled: (the size, how many more steps there are, source lines)."""
        found = [
            (plan.loop.more, sorted({item.call.location.source for item in plan.loop.body} - {""}))
            for plan in self._plans.values()
        ]
        return [(self.count.name, *each) for each in found] + list(self._others)


class _Run:
    """One run of a rolled program."""

    def __init__(
        self,
        native: Capture,
        program: Rolled,
        plans: dict[int, Plan],
        inputs: Sequence[Any],
        count: Count,
    ) -> None:
        self._native = native
        self._count = count
        self._program = program
        self._plans = plans
        self._inputs = inputs
        self._length = count.steps(inputs)
        self._values: dict[int, Any] = {}  # by the place of the call
        # The results of all steps, stacked, by the loop and what Plan.outputs says.
        self._rows: dict[tuple[int, Output], Any] = {}
        self._last: dict[Of, Any] = {}

    def results(self) -> list[Any]:
        if self._program.lowest > 1:
            self._check_at_least(self._program.lowest)
        self._run_items(self._program.items)
        return [self.value(role) for role in self._program.outputs]

    def _run_items(self, items: Sequence[Item | Loop]) -> None:
        for i, end in outermost(items, range(len(items))):
            item, last = items[i], items[end]
            if isinstance(item, Loop):
                self._run_loop(self._plans[item.number])
            elif item.call.target is _recorded_program.decided:
                self._decide(item)
            elif isinstance(last, Item) and end > i:
                body = functools.partial(self._run_items, items[i + 1 : end])
                enter = functools.partial(self._values.__setitem__, item.place)
                self._values[last.place] = self.scan(item, last, self.value, enter, body)
            else:
                self._values[item.place] = self.called(item, map(self.value, item.roles))

    def scan(
        self,
        begin: Item,
        end: Item,
        value: Callable[[Any], Any],
        enter: Callable[[Any], None],
        body: Callable[[], None],
    ) -> list[Any]:
        """Runs a scan of the program, and returns its results.

        Args:
            begin: The call of scan_begin.
            end: The call of scan_end.
            value: Returns the values of roles.
            enter: Gets the states and the slices of the body.
            body: Runs the body.
        """

        def operands(item: Item) -> tuple[list[Any], list[Any]]:
            self._native.place(item.call.location)
            first, second = _calls.with_leaves(item.call.args, map(value, item.roles))
            if any(isinstance(each, Run) for each in (*first, *second)):
                raise NoLoopError("a scan takes the values of all steps")
            return first, second

        init, xs = operands(begin)

        def combine(*given: Any) -> list[Any]:
            enter((list(given[: len(init)]), list(given[len(init) :])))
            body()
            states, results = operands(end)
            return [each.clone() for each in (*states, *results)]

        return list(_upstream.scan_op(combine, [each.clone() for each in init], xs, []))

    def _check_at_least(self, lowest: int) -> None:
        less = _library.extension().Relation.LESS
        if not self._native.sizes.repeat(text_of(self._length), -lowest, less, False):
            raise NoLoopError(f"the loops are alike from the length {lowest} on only")

    # Decisions.

    def _decide(self, item: Item) -> None:
        rest, number, name, holds, is_of_empty = item.roles
        if rest == "used":
            return self._use(number)
        relation = _recorded_program.relations()[name]
        value = self.number(number, 0)
        if not self._native.sizes.repeat(rest, value, relation, holds, is_of_empty):
            raise NoLoopError("the program decides otherwise for the sizes of the example")
        return None

    def _use(self, number: Number) -> None:
        """A number that the program uses in an unknown way is the same at all lengths."""
        if number.step or number.length or number.size is not None:
            raise NoLoopError("the program uses the number of a step or the length otherwise")
        self._native.sizes.note_use(number.plus)

    def _decide_in_steps(self, item: Item, loop: Loop) -> None:
        """Decides for all steps: a number that grows evenly is between those of two steps."""
        rest, number, name, holds, _ = item.roles
        if rest == "used":
            return self._use(number)
        if number.has_step_in_size():  # it need not grow evenly
            raise NoLoopError("a step decides on a number that follows from the sizes and the step")
        relations = _library.extension().Relation
        relation = _recorded_program.relations()[name]
        steps = self._length + loop.more
        ends = [self.number(number, step) for step in (0, steps - 1)]
        if number.step and relation is relations.EQUAL:
            if holds:
                raise NoLoopError("a number in a loop follows no rule")
            # All are negative, or all are positive.
            is_negative = self._holds(loop, rest, ends[0], relations.LESS, True)
            relation = relations.LESS if is_negative else relations.LESS_EQUAL
            holds = is_negative
        if not all(self._holds(loop, rest, end, relation, holds) for end in ends):
            raise NoLoopError("steps decide otherwise for the sizes of the example")
        return None

    def _holds(self, loop: Loop, rest: str, number: Any, relation: Any, holds: bool) -> bool:
        """Whether a condition has this truth wherever the loop has a step."""
        known = self._proven(loop, rest, number, relation)
        sizes = self._native.sizes
        if known is None or sizes.counts():  # or the loops over another size are to be found
            return sizes.repeat(rest, number, relation, holds)
        return known == holds

    def _proven(self, loop: Loop, rest: str, number: Any, relation: Any) -> bool | None:
        """The truth of a condition wherever the loop has a step; None if it is not proven."""
        steps, least = self._count.name, 1 - loop.more
        return self._native.sizes.proven_from(steps, least, rest, number, relation)

    # Values.

    def value(self, role: Any) -> Any:
        """A value in no loop."""
        if isinstance(role, Outer):
            return self._referred(role.ref)
        if isinstance(role, Number):
            return self.number(role, 0)
        if isinstance(role, RowView):
            return self.value(role.of).select(role.axis, self.number(role.index, 0))
        if isinstance(role, Of):
            if role in self._last:
                return self._last[role]
            return self._rows[role.loop, (role.call, role.path, ())].select(0, role.step)
        if isinstance(role, Values):
            return [self.value(each) for each in role.roles]
        return role

    def number(self, number: Number, step: Any) -> Any:
        value = number.plus if number.size is None else self._size(number.size, step) + number.plus
        if number.length:
            value = value + number.length * self._length
        return value + number.step * step if number.step else value

    def _size(self, size: Any, step: Any) -> Any:
        """A number that follows from sizes. See Number.size."""
        if isinstance(size, Number):
            return self.number(size, step)
        if isinstance(size, _calls.Size):
            return self._size(size.of, step) + size.plus
        if isinstance(size, _calls.Ref):
            return self._referred(size)
        if not isinstance(size, tuple):
            return size
        if size[0] == "size":
            return self._referred(size[1]).shape[size[2]]
        function, operands = size
        return function(*(self._size(each, step) for each in operands))

    def _referred(self, ref: _calls.Ref) -> Any:
        if ref.kind == "input":
            return self._inputs[ref.at]
        if ref.kind == "constant":
            return self._program.constants[ref.at]
        return _part(self._values[ref.at], ref.path)

    def called(self, item: Item, leaves: Iterator[Any]) -> Any:
        """Calls the function of an item with these leaves."""
        call = item.call
        self._native.place(call.location)
        args, kwargs = _calls.with_leaves((call.args, call.kwargs), leaves)
        if args and isinstance(args[0], list) and any(isinstance(each, Run) for each in args[0]):
            return self._joined(call.target, *args)
        if any(isinstance(each, Run) for arg in args if isinstance(arg, list) for each in arg):
            raise NoLoopError(f"{call.target} takes the values of all steps")
        if call.target is aten.sym_size.int:
            return args[0].shape[args[1]]
        return call.target(*args, **kwargs)

    def check_within(self, loop: Loop, end: Number, size: Any) -> None:
        """The slices of all steps end in the tensor, which would cut them."""
        steps = self._length + loop.more
        less_equal = _library.extension().Relation.LESS_EQUAL
        for step in (0, steps - 1):
            rest = self.number(end, step) - size
            known = self._proven(loop, "0", rest, less_equal)
            sizes = self._native.sizes
            if known is None and not sizes.counts():  # the body of a loop tells no decisions
                known = sizes.repeat("0", rest, less_equal, True)
            if not known:
                raise NoLoopError("a step takes a slice that the end of the tensor cuts")

    def item(self, number: torch.Tensor) -> Any:
        """A number of a tensor as a size."""
        return self._native.item(number)

    def _sequence(self, run: Run) -> Any:
        rows = self._rows[run.loop, (run.call, run.path, run.rows)]
        return rows.flip(0) if run.is_reversed else rows

    def _joined(self, target: Any, values: list[Any], axis: int = 0) -> Any:
        """Stacks or concatenates values, some of which are the results of all steps."""
        if target not in (aten.stack.default, aten.cat.default):
            raise NoLoopError(f"{target} takes the values of all steps")
        is_stack = target is aten.stack.default
        parts = []
        for value in values:
            if not isinstance(value, Run):
                parts.append(value.unsqueeze(axis) if is_stack else value)
                continue
            rows = self._sequence(value)
            at = axis % (rows.dim() if is_stack else rows.dim() - 1)
            rows = rows.movedim(0, at)
            parts.append(rows if is_stack else rows.flatten(at, at + 1))
        return parts[0].contiguous() if len(parts) == 1 else torch.cat(parts, axis)

    # Loops.

    def _run_loop(self, plan: Plan) -> None:
        loop = plan.loop
        steps = self._length + loop.more
        if loop.more < -1:
            self._check_at_least(-loop.more)
        for item in plan.decisions:
            self._decide_in_steps(item, loop)
        self._native.place(loop.body[0].call.location)
        init = [self._initial(first) for each in plan.carried for first in each.first]
        slices = [self._selected(row, steps) for row in plan.rows]
        slices += [self._sequence(run) for run in plan.sequences]
        if plan.counts or not slices:
            slices.append(_narrowed(torch.arange(self._length + max(loop.more, 0)), 0, 0, steps))

        def combine(*given: Any) -> list[Any]:
            step = _Step(self, plan, given, steps)
            step.run(loop.body, range(len(loop.body)), plan.dropped)
            self._native.place(loop.body[0].call.location)
            return step.states() + [step.output(*each) for each in plan.outputs]

        results = iter(_upstream.scan_op(combine, init, slices, []))
        for each in plan.carried:
            for back in range(len(each.first), 0, -1):
                self._last[Of(loop.number, each.call, each.path, -back)] = next(results)
        for output, value in zip(plan.outputs, results, strict=True):
            self._rows[loop.number, output] = value
        for write in plan.writes:
            rows = self._rows[loop.number, (write.value.call, write.value.path, ())]
            self._last[Of(loop.number, write.call, (), -1)] = self._written(write, rows, steps)

    def _initial(self, role: Any) -> torch.Tensor:
        value = self.value(role)
        if not isinstance(value, torch.Tensor):
            raise NoLoopError("a loop carries a value that is not a tensor")
        return value.clone()

    def _written(self, write: Write, rows: torch.Tensor, steps: Any) -> torch.Tensor:
        """The tensor that has the results of all steps as rows."""
        buffer = self.value(write.row.of)
        axis = write.row.axis % buffer.dim()
        start = self.number(write.row.index, 0)
        rows = rows.movedim(0, axis)
        if write.row.index.step < 0:
            start, rows = start - steps + 1, rows.flip(axis)
        if _is_whole(buffer, axis, start, steps):
            return rows.contiguous()
        return torch.slice_scatter(buffer, rows, axis, start, start + steps)

    def _selected(self, row: RowView, steps: Any) -> torch.Tensor:
        """The rows of a value that the steps get, along axis 0."""
        value = self.value(row.of)
        axis = row.axis % value.dim()
        start = self.number(row.index, 0)
        if abs(row.index.step) != 1:
            chosen = torch.arange(steps) * row.index.step + start
            return value.index_select(axis, chosen).movedim(axis, 0)
        if row.index.step < 0:
            start = start - steps + 1
        value = _narrowed(value, axis, start, steps).movedim(axis, 0)
        return value.flip(0) if row.index.step < 0 else value


class _Step:
    """One step of a loop, as the body of a scan.

    Attributes:
        results: The results of the calls of the body.
    """

    def __init__(self, run: _Run, plan: Plan, given: Sequence[Any], steps: Any) -> None:
        """Takes the states, the rows, the rows of other loops and the number of the step."""
        values = iter(given)
        self.results: dict[int, Any] = {}
        self._run = run
        self._plan = plan
        self._states = {each: [next(values) for _ in each.first] for each in plan.carried}
        self._rows = {row: next(values) for row in plan.rows}
        self._sequences = {run: next(values) for run in plan.sequences}
        self._number = next(values, None)
        self._number_as_size: Any = None
        self._steps = steps

    def states(self) -> list[torch.Tensor]:
        """The states for the next step."""
        return [
            state.clone()
            for each, states in self._states.items()
            for state in (*states[1:], _part(self.results[each.call], each.path))
        ]

    def output(self, call: int, path: Sequence[int], rows: Sequence[tuple[int, int]]) -> Any:
        """A result of the step. See Plan.outputs."""
        value = _part(self.results[call], path)
        for axis, index in rows:
            value = value.select(axis, index)
        return value.clone()

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
        """The number of the step, where a call takes no tensor: as a size that depends on data."""
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
            return _part(self.results[role.call], role.path)
        if isinstance(role, Carried):
            return self._states[role][0]
        if isinstance(role, RowOf):
            return self._sequences[role.run]
        if isinstance(role, RowView):
            return self._row(role)
        if _varies(role):
            return self._run.number(role, self._number)
        if isinstance(role, Values):
            return [self._value(each) for each in role.roles]
        return self._run.value(role)

    def _row(self, row: RowView) -> torch.Tensor:
        if row in self._rows:
            return self._rows[row]
        value, index = self._value(row.of), self._value(row.index)
        if isinstance(index, torch.Tensor):
            return value.index_select(row.axis, index.reshape(1)).squeeze(row.axis)
        return value.select(row.axis, index)


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


def _part(value: Any, path: Sequence[int]) -> Any:
    return functools.reduce(lambda whole, index: whole[index], path, value)


def _narrowed(value: torch.Tensor, axis: int, start: Any, steps: Any) -> torch.Tensor:
    is_whole = _is_whole(value, axis, start, steps)
    return value if is_whole else value.narrow(axis, start, steps)


def _is_whole(value: torch.Tensor, axis: int, start: Any, steps: Any) -> bool:
    return text_of(value.shape[axis]) == text_of(steps) and text_of(start) == "0"
