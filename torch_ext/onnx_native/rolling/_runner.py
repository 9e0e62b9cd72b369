"""Runs a rolled program on recorded tensors: its loops become scans."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch

from onnx_native import _library
from onnx_native.recording import _control_flow, _recorded_program
from onnx_native.rolling import _calls
from onnx_native.rolling._calls import RowView
from onnx_native.rolling._count import Count, text_of
from onnx_native.rolling._plan import Output, Plan, Write, plans
from onnx_native.rolling._results import Pieces, Rows, is_whole, narrowed
from onnx_native.rolling._roles import (
    Carried,
    Item,
    Loop,
    NoLoopError,
    Number,
    Of,
    Outer,
    Rolled,
    Run,
    Values,
)
from onnx_native.rolling._step import Step, as_tensor, outermost, part
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
        results = Execution(native, self._program, self._plans, inputs, self.count).results()
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


class Execution:
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
        # The results of all steps, by the loop and what Plan.outputs says.
        self._results: dict[tuple[int, Output], Rows | Pieces] = {}
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
            results = self._results[role.loop, (role.call, role.path, ())]
            return results.at(role.step, self.item)
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
        return part(self._values[ref.at], ref.path)

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

    def results_of(self, run: Run) -> Rows | Pieces:
        """The results of all steps of a loop that ran."""
        return self._results[run.loop, (run.call, run.path, run.rows)]

    def _joined(self, target: Any, values: list[Any], *rest: Any) -> Any:
        """Joins values, some of which are the results of all steps, to one tensor."""
        if target is aten.pad_sequence.default and len(values) == 1:
            results = self.results_of(values[0])
            if isinstance(results, Pieces) and not values[0].is_reversed:
                return results.padded(*rest)
        if target not in (aten.stack.default, aten.cat.default):
            raise NoLoopError(f"{target} takes the values of all steps")
        is_stack = target is aten.stack.default
        (axis,) = rest or (0,)
        parts = []
        for value in values:
            if isinstance(value, Run):
                parts.append(self.results_of(value).joined(is_stack, axis, value.is_reversed))
            else:
                parts.append(value.unsqueeze(axis) if is_stack else value)
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
        init = [self._initial(plan, each, first) for each in plan.carried for first in each.first]
        growing = [loop.growing.get(each) for each in plan.carried for _ in each.first]
        slices = [self._selected(row, steps) for row in plan.rows]
        for of in plan.sequences:
            slices += self.results_of(of.run).slices(of, steps)
        if plan.counts or not slices:
            slices.append(narrowed(torch.arange(self._length + max(loop.more, 0)), 0, 0, steps))
        axes: list[int | None] = []  # of the results, where they are pieces
        numbers: list[bool] = []  # whether results are integers

        def combine(number: Any, *given: Any) -> list[Any]:
            step = Step(self, plan, given, steps, number)
            step.run(loop.body, range(len(loop.body)), plan.dropped)
            self._native.place(loop.body[0].call.location)
            values = [step.output(each) for each in plan.outputs]
            numbers.extend(not isinstance(value, torch.Tensor) for value in values)
            outputs = [as_tensor(value) for value in values]
            axes.extend(map(self._ragged_axis, outputs))
            sizes = [
                as_tensor(value.shape[axis])
                for output, value, axis in zip(plan.outputs, outputs, axes, strict=True)
                if axis is not None and output in plan.read
            ]
            axes.extend(None for _ in sizes)
            return step.states() + outputs + sizes

        scan = _control_flow.Steps(combine, growing, axes)
        results = list(_upstream.scan_op(scan, init, slices, []))
        last, outputs, sizes = _cut(results, len(init), len(plan.outputs))
        for each in plan.carried:
            for back in range(len(each.first), 0, -1):
                of_last = Of(loop.number, each.call, each.path, -back)
                tensor = last.pop(0)
                self._last[of_last] = self.item(tensor) if each in plan.numbers else tensor
        for i, (output, tensor) in enumerate(zip(plan.outputs, outputs, strict=True)):
            axis = axes[i]
            self._results[loop.number, output] = (
                Rows(tensor, numbers[i])
                if axis is None
                else Pieces(tensor, axis, sizes.pop(0) if output in plan.read else None)
            )
        for write in plan.writes:
            rows = self._results[loop.number, (write.value.call, write.value.path, ())]
            of_last = Of(loop.number, write.call, (), -1)
            self._last[of_last] = self._written(write, rows.joined(True, 0, False), steps)

    def _ragged_axis(self, output: torch.Tensor) -> int | None:
        """The axis of a result of a step whose size depends on data of the step."""
        axes = self._native.regions.ragged_axes(output)
        if len(axes) > 1:
            raise NoLoopError("the steps of a loop return tensors of different sizes")
        return axes[0] if axes else None

    def _initial(self, plan: Plan, carried: Carried, role: Any) -> torch.Tensor:
        value = self.value(role)
        if not isinstance(value, torch.Tensor):
            plan.numbers.add(carried)
        return as_tensor(value)

    def _written(self, write: Write, rows: torch.Tensor, steps: Any) -> torch.Tensor:
        """The tensor that has the results of all steps as rows."""
        buffer = self.value(write.row.of)
        axis = write.row.axis % buffer.dim()
        start = self.number(write.row.index, 0)
        rows = rows.movedim(0, axis)
        if write.row.index.step < 0:
            start, rows = start - steps + 1, rows.flip(axis)
        if is_whole(buffer, axis, start, steps):
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
        value = narrowed(value, axis, start, steps).movedim(axis, 0)
        return value.flip(0) if row.index.step < 0 else value


def _cut(values: Sequence[Any], *lengths: int) -> Iterator[list[Any]]:
    """Cuts a list into parts of these lengths, and the rest."""
    rest = list(values)
    for length in lengths:
        yield rest[:length]
        rest = rest[length:]
    yield rest
