"""Finds what recordings of a program at several lengths have in common.

Where two recordings differ by repetitions of one body, there is a loop. Each value and number of
the program then gets a role: what it is in a step of any loop, at any length. All recordings must
agree with the roles.
"""

from __future__ import annotations

import bisect
import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from onnx_native.rolling import _calls, _rules
from onnx_native.rolling._calls import Ref, RowView
from onnx_native.rolling._roles import (
    Carried,
    Item,
    Loop,
    NoLoopError,
    Of,
    Outer,
    Rolled,
    RowOf,
    Run,
    Same,
    Values,
    found_in,
)

# How often each call is looked at on average, in all places where loops are tried.
_MOST_LOOKED_AT = 128


def rolled(recordings: Mapping[int, _calls.Calls], base: int) -> Rolled:
    """Rolls a program.

    Args:
        recordings: The recordings by their lengths.
        base: The length of the recording in which loops are found, together with the next one.
            Shorter recordings need not agree.

    Raises:
        NoLoopError: The recordings differ in another way.
    """
    lengths = sorted(recordings)
    ends = check(recordings, base)
    shorter = [length for length in lengths if length < base]
    error: NoLoopError | None = None
    budget = [_MOST_LOOKED_AT * sum(len(each.calls) for each in recordings.values())]
    for lowest in [*shorter, base]:
        used = {length: each for length, each in recordings.items() if length >= lowest}
        try:
            return _with_spans(used, ends, [], base, budget)
        except NoLoopError as failure:
            error = failure
    assert error is not None
    raise error


def check(recordings: Mapping[int, _calls.Calls], base: int) -> list[tuple[int, int]]:
    """Returns the loops of the recording of the base length: (end, calls in a step) of each.

    Raises:
        NoLoopError: That one and the next longer one differ in another way.
    """
    after = min(length for length in recordings if length > base)
    ends = _ends(recordings[base].signatures, recordings[after].signatures, after - base)
    if not ends:
        raise NoLoopError("the recordings have as many calls")
    return ends


def _ends(short: list[Any], longer: list[Any], more: int) -> list[tuple[int, int]]:
    """The loops of a recording, from one that has more steps: (end, calls in a step) of each."""
    found: list[tuple[int, int]] = []
    i = offset = 0
    while True:
        while i < len(short) and i + offset < len(longer) and short[i] == longer[i + offset]:
            i += 1
        if i == len(short) and i + offset == len(longer):
            return found
        at = i + offset
        for size in range(1, min(at, (len(longer) - at) // more) + 1):
            end = at + size * more
            if longer[at - size : at] * more == longer[at:end] and (
                short[i : i + 1] == longer[end : end + 1]
            ):
                break
        else:
            raise NoLoopError("the recordings differ by more than repetitions")
        found.append((i, size))
        offset += size * more


@dataclasses.dataclass
class _Span:
    """Where a loop is in the recording of the base length."""

    start: int
    size: int  # calls in a step
    steps: int

    @property
    def end(self) -> int:
        return self.start + self.size * self.steps


def _with_spans(
    recordings: Mapping[int, _calls.Calls],
    ends: Sequence[tuple[int, int]],
    chosen: list[_Span],
    base: int,
    budget: list[int],
) -> Rolled:
    """Tries where the loops may start and end: steps look alike, so that several places may do."""
    if len(chosen) == len(ends):
        return _Roles(recordings, _Layout(chosen, base), budget).rolled()
    end, size = ends[len(chosen)]
    signatures = recordings[base].signatures
    lowest = chosen[-1].end if chosen else 0
    error = NoLoopError("no loop has steps that are alike")
    for turn in range(size):
        stop = end - turn
        step = signatures[stop - size : stop]
        if not _is_balanced(step):
            continue
        steps = 0
        while (
            stop - (steps + 1) * size >= lowest
            and step == (signatures[stop - (steps + 1) * size : stop - steps * size])
        ):
            steps += 1
        for count in range(min(steps, base + 1), 0, -1):
            spans = [*chosen, _Span(stop - count * size, size, count)]
            # The calls up to the next loop show whether this is the place.
            until = len(signatures)
            if len(spans) < len(ends):
                next_end, next_size = ends[len(spans)]
                until = max(stop, next_end - next_size * (base + 2))
            layout = _Layout(spans, base)
            try:
                _Roles(recordings, layout, budget).check(lowest, until)
                return _with_spans(recordings, ends, spans, base, budget)
            except NoLoopError as failure:
                error = failure
    raise error


def _is_balanced(signatures: Sequence[Any]) -> bool:
    """Whether each scan that begins or ends among some calls also ends and begins there."""
    depth = 0
    for target, _ in signatures:
        depth += (target is _calls.scan_begin) - (target is _calls.scan_end)
        if depth < 0:
            return False
    return depth == 0


class _Layout:
    """Where the calls of each recording are in the rolled program."""

    def __init__(self, spans: Sequence[_Span], base: int) -> None:
        self.spans = spans
        self._base = base
        self._starts_at: dict[int, list[int]] = {}  # by the length

    def steps(self, loop: int, length: int) -> int:
        return self.spans[loop].steps + length - self._base

    def place(self, call: int, length: int) -> tuple[int | None, int, int]:
        """Returns (loop, step, call in the body), or (None, place, 0) for a call in no loop."""
        starts = self._starts(length)
        i = bisect.bisect_right(starts, call) - 1
        if i < 0:
            return None, call, 0
        span, into = self.spans[i], call - starts[i]
        if into < span.size * self.steps(i, length):
            return i, into // span.size, into % span.size
        more = starts[i] - span.start + span.size * (length - self._base)
        return None, call - more, 0

    def _starts(self, length: int) -> list[int]:
        """Where the loops start in a recording."""
        if length not in self._starts_at:
            more = 0  # calls that the recording of the base length does not have
            starts = self._starts_at[length] = []
            for span in self.spans:
                starts.append(span.start + more)
                more += span.size * (length - self._base)
        return self._starts_at[length]

    def at(self, call: int, length: int) -> int:
        """The place in a recording of a call of the base length that is in no loop."""
        more = sum(span.size for span in self.spans if span.end <= call)
        return call + more * (length - self._base)

    def outside(self, leaf: Any, length: int) -> Any:
        """The role of a leaf of one recording for a reader in no loop."""
        if isinstance(leaf, Ref):
            if leaf.kind != "call":
                return Outer(leaf)
            loop, step, call = self.place(leaf.at, length)
            if loop is None:
                return Outer(Ref("call", step, leaf.path))
            return Of(loop, call, leaf.path, step)
        if isinstance(leaf, RowView):
            return dataclasses.replace(leaf, of=self.outside(leaf.of, length))
        return self._values(leaf, length) if _calls.is_values(leaf) else leaf

    def _values(self, refs: Sequence[Ref], length: int) -> Values:
        roles = [self.outside(each, length) for each in refs]
        found: list[Any] = []
        i = 0
        while i < len(roles):
            run = self._run(roles, i, length)
            found.append(roles[i] if run is None else run)
            i += 1 if run is None else self.steps(run.loop, length)
        return Values(tuple(found))

    def _run(self, roles: Sequence[Any], i: int, length: int) -> Run | None:
        """The list of all steps that starts here; None if there is none."""
        first, rows = _of_row(roles[i])
        if not isinstance(first, Of):
            return None
        steps = self.steps(first.loop, length)
        every = [(dataclasses.replace(first, step=step), rows) for step in range(steps)]
        found = list(map(_of_row, roles[i : i + steps]))
        for is_reversed in (False, True):
            if found == (every[::-1] if is_reversed else every):
                return Run(first.loop, first.call, first.path, is_reversed, rows)
        return None


def _of_row(role: Any) -> tuple[Any, tuple[tuple[int, int], ...]]:
    """The value that a row is of, and the place of the row in it, as Run.rows has it."""
    rows: tuple[tuple[int, int], ...] = ()
    while isinstance(role, RowView) and isinstance(role.index, int):
        rows = ((role.axis, role.index), *rows)
        role = role.of
    return role, rows


@dataclasses.dataclass(frozen=True)
class _Back:
    """A value of the step that is so many steps back."""

    call: int
    path: tuple[int, ...]
    steps: int


class _Roles:
    """Finds the roles that all recordings agree with."""

    def __init__(
        self, recordings: Mapping[int, _calls.Calls], layout: _Layout, budget: list[int]
    ) -> None:
        self._recordings = recordings
        self._layout = layout
        self._budget = budget  # how many calls may still be looked at
        # The last values of loops, and what they are after fewer steps.
        self._early: list[tuple[Of, int, Any]] = []

    def rolled(self) -> Rolled:
        """Returns the program; raises NoLoopError."""
        base, longest = min(self._recordings), max(self._recordings)
        layout = self._layout
        outside, inside = self._places(0, None)
        items = {place: self._item(place, calls) for place, calls in outside.items()}
        bodies: dict[int, list[Item]] = {i: [] for i in range(len(layout.spans))}
        for loop, call in sorted(inside):
            bodies[loop].append(self._in_loop(loop, inside[loop, call]))
        order: list[Item | Loop] = []
        at = 0
        longest_calls = len(self._recordings[longest].calls)
        while at < longest_calls:
            in_loop, place, _ = layout.place(at, longest)
            if in_loop is None:
                order.append(items[place])
                at += 1
                continue
            span = layout.spans[in_loop]
            body = bodies[in_loop]
            growing = {
                each: growth
                for item in body
                for each in found_in(item.roles, Carried)
                if (growth := self._growth(inside[in_loop, each.call], each)) is not None
            }
            order.append(Loop(in_loop, layout.steps(in_loop, 0), body, growing))
            at += span.size * layout.steps(in_loop, longest)
        outputs = [each.outputs for each in self._recordings.values()]
        if len(set(map(len, outputs))) != 1:
            raise NoLoopError("the number of results depends on the length")
        written = [each.written for each in self._recordings.values()]
        if any(each != written[0] for each in written):
            raise NoLoopError("the program writes to other tensors at other lengths")
        columns = zip(*outputs, strict=True)
        roles = [self._agreed(dict(zip(self._recordings, each, strict=True))) for each in columns]
        self._check_early(bodies)
        constants = {
            key: tensor
            for each in self._recordings.values()
            for key, tensor in each.constants.items()
        }
        return Rolled(order, roles, written[0], constants, base)

    def check(self, begin: int, end: int) -> None:
        """Raises NoLoopError if these calls of the base length have no roles; both ends are in no
        loop."""
        outside, inside = self._places(begin, end)
        for place, calls in outside.items():
            self._item(place, calls)
        for (loop, _), places in inside.items():
            self._in_loop(loop, places)

    def _places(
        self, begin: int, end: int | None
    ) -> tuple[dict[int, dict[int, int]], dict[tuple[int, int], dict[tuple[int, int], int]]]:
        """Where calls are in the recordings: those in no loop by the length, those in a loop by the
        step and the length."""
        layout = self._layout
        outside: dict[int, dict[int, int]] = {}
        inside: dict[tuple[int, int], dict[tuple[int, int], int]] = {}
        for length, recording in self._recordings.items():
            if any(layout.steps(i, length) < 0 for i in range(len(layout.spans))):
                raise NoLoopError("a loop has fewer steps than none")
            last = len(recording.calls) if end is None else layout.at(end, length)
            for i in range(layout.at(begin, length), min(last, len(recording.calls))):
                loop, step, call = layout.place(i, length)
                if loop is None:
                    outside.setdefault(step, {})[length] = i
                else:
                    inside.setdefault((loop, call), {})[step, length] = i
        return outside, inside

    def _item(self, place: int, calls: Mapping[int, int]) -> Item:
        """A call in no loop, from where it is by the length."""
        if len(calls) != len(self._recordings):
            raise NoLoopError("a call is not in every recording")
        call, columns = self._columns({(length, length): i for length, i in calls.items()})
        return Item(
            call, [self._agreed(dict(zip(calls, each, strict=True))) for each in columns], place
        )

    def _in_loop(self, loop: int, calls: Mapping[tuple[int, int], int]) -> Item:
        """A call of a body, from where it is by the step and the length."""
        call, columns = self._columns({(key, key[1]): i for key, i in calls.items()})
        return Item(
            call, [self._agreed_in(loop, dict(zip(calls, each, strict=True))) for each in columns]
        )

    def _columns(
        self, calls: Mapping[tuple[Any, int], int]
    ) -> tuple[_calls.RecordedCall, list[Any]]:
        """A call that all recordings have, and each of its leaves in all of them."""
        self._budget[0] -= len(calls)
        if self._budget[0] < 0:
            raise NoLoopError("too many loops look alike")
        found = [(self._recordings[length], i) for (_, length), i in calls.items()]
        if len({recording.signatures[i] for recording, i in found}) != 1:
            raise NoLoopError("calls differ")
        recording, i = found[0]
        leaves = [recording.calls[i].leaves() for recording, i in found]
        return recording.calls[i], list(zip(*leaves, strict=True))

    def _agreed(self, leaves: Mapping[int, Any]) -> Any:
        """The role of a leaf outside of loops, which is given by the length."""
        outside = self._layout.outside
        return self._joined({length: outside(leaf, length) for length, leaf in leaves.items()})

    def _joined(self, roles: Mapping[int, Any]) -> Any:
        """The role that a leaf has at all lengths, from its role at each one."""
        found = list(roles.values())
        if all(_rules.is_number(each) for each in found):
            return _rules.number({(0, length): value for length, value in roles.items()})
        if all(isinstance(each, RowView) for each in found):
            return self._row(roles, self._joined, lambda length: (0, length))
        longest = roles[max(roles)]
        if all(isinstance(each, Values) for each in found):
            lists = [self._full(each, longest, length) for length, each in roles.items()]
            columns = list(zip(*lists, strict=True))
            return Values(
                tuple(self._joined(dict(zip(roles, each, strict=True))) for each in columns)
            )
        if all(_rules.is_same(each, found[0]) for each in found):
            return found[0]
        if isinstance(longest, Of):
            return self._last(longest.loop, roles)
        raise NoLoopError("a value after a loop follows no rule")

    def _row(
        self,
        rows: Mapping[Any, RowView],
        agreed: Callable[[Mapping[Any, Any]], Any],
        key_of: Callable[[Any], tuple[int, int]],
    ) -> RowView:
        """The role of rows; `agreed` returns the role of the tensors that they are of."""
        axes = {row.axis for row in rows.values()}
        if len(axes) != 1:
            raise NoLoopError("a row is along several axes")
        index = _rules.number({key_of(key): row.index for key, row in rows.items()})
        return RowView(agreed({key: row.of for key, row in rows.items()}), axes.pop(), index)

    def _last(self, loop: int, roles: Mapping[int, Any]) -> Of:
        """The role of a value that is as far from the last step of a loop at all lengths."""
        from_end: set[Of] = set()
        others: list[tuple[int, Any]] = []
        for length, role in roles.items():
            steps = self._layout.steps(loop, length)
            if isinstance(role, Of) and role.loop == loop:
                from_end.add(dataclasses.replace(role, step=role.step - steps))
            else:
                others.append((steps, role))
        if len(from_end) != 1 or any(
            steps >= -each.step for each in from_end for steps, _ in others
        ):
            raise NoLoopError("a value after a loop follows no rule")
        found = from_end.pop()
        self._early += [(found, *each) for each in others]
        return found

    def _full(self, values: Values, longest: Values, length: int) -> Sequence[Any]:
        """The roles in a list, with those of loops that have no step at this length. The results of
        a single step are in both orders."""
        rest = iter(values.roles)
        found = []
        for each in longest.roles:
            steps = self._layout.steps(each.loop, length) if isinstance(each, Run) else None
            role = each if steps == 0 else next(rest, None)
            if steps == 1 and isinstance(role, Run):
                role = dataclasses.replace(role, is_reversed=each.is_reversed)
            found.append(role)
        if None in found or next(rest, None) is not None:
            raise NoLoopError("a list after a loop follows no rule")
        return found

    def _growth(
        self, calls: Mapping[tuple[int, int], int], carried: Carried
    ) -> tuple[int, int] | None:
        """The axis along which a tensor has more rows in each step, and how many; None if none.

        Args:
            calls: Where the call that makes it is, by the step and the length.
            carried: The tensor.
        """
        shapes: dict[int, set[tuple[tuple[str, int], ...]]] = {}  # by the step
        for (step, length), at in calls.items():
            shape = self._recordings[length].shapes.get(Ref("call", at, carried.path), ())
            shapes.setdefault(step, set()).add(tuple(shape))
        if any(len(each) != 1 for each in shapes.values()) or not {0, 1} <= shapes.keys():
            return None
        first, second = (next(iter(shapes[step])) for step in (0, 1))
        for axis, ((rest, start), (_, following)) in enumerate(zip(first, second, strict=False)):
            rows = following - start
            if rows > 0 and all(
                each == {(*first[:axis], (rest, start + step * rows), *first[axis + 1 :])}
                for step, each in shapes.items()
            ):
                return axis, rows
        return None

    def _check_early(self, bodies: Mapping[int, Sequence[Item]]) -> None:
        """After fewer steps, the last values are those that the first steps got."""
        for last, steps, role in self._early:
            carried = [
                each
                for item in bodies[last.loop]
                for each in found_in(item.roles, Carried)
                if (each.call, each.path) == (last.call, last.path)
                and len(each.first) >= -last.step
                and each.first[len(each.first) + last.step + steps] == role
            ]
            if not carried:
                raise NoLoopError("a loop with fewer steps has other results")

    def _agreed_in(self, loop: int, leaves: Mapping[tuple[int, int], Any]) -> Any:
        """The role of a leaf in a body, which is given by the step and the length."""
        some = next(iter(leaves.values()))
        if _calls.is_values(some):
            if len({len(leaf) for leaf in leaves.values()}) != 1:
                raise NoLoopError("a list in the loop grows")
            columns = zip(*leaves.values(), strict=True)
            return Values(
                tuple(
                    self._agreed_in(loop, dict(zip(leaves, each, strict=True))) for each in columns
                )
            )
        if _rules.is_number(some):
            return _rules.number(leaves)
        if isinstance(some, (Ref, RowView)):
            return self._value_in(loop, leaves)
        if not all(
            type(leaf) is type(some) and _rules.is_same(leaf, some) for leaf in leaves.values()
        ):
            raise NoLoopError("an argument in the loop changes")
        return some

    def _value_in(self, loop: int, leaves: Mapping[tuple[int, int], Any]) -> Any:
        if all(isinstance(leaf, RowView) for leaf in leaves.values()):
            return self._row(leaves, functools.partial(self._value_in, loop), lambda key: key)
        roles = {key: self._in_step(loop, key, leaf) for key, leaf in leaves.items()}
        kinds = set(roles.values())
        if len(kinds) == 1 and isinstance(next(iter(kinds)), (Same, Outer)):
            return kinds.pop()
        if any(isinstance(role, _Back) for role in kinds):
            return self._carried(roles)
        if all(isinstance(role, Of) for role in kinds):
            rows = [self._row_of(key, role) for key, role in roles.items()]
            for is_reversed in (False, True):
                found = {each[is_reversed] for each in rows}
                if len(found) == 1 and (row := found.pop()) is not None:
                    return row
        # A value of another loop, or one from before, that is the same in each step.
        by_length: dict[int, Any] = {}
        for (_, length), role in roles.items():
            if by_length.setdefault(length, role) != role:
                raise NoLoopError("a value in the loop follows no rule")
        return self._joined(by_length)

    def _carried(self, roles: Mapping[tuple[int, int], Any]) -> Carried:
        """The role of a value that later steps get from an earlier one."""
        found = {role for role in roles.values() if isinstance(role, _Back)}
        if len(found) != 1:
            raise NoLoopError("a step reads several steps that are further back")
        back = found.pop()
        if any(
            isinstance(role, _Back) != (step >= back.steps) for (step, _), role in roles.items()
        ):
            raise NoLoopError("a value in the loop follows no rule")
        first = tuple(
            self._joined({n: role for (step, n), role in roles.items() if step == at})
            for at in range(back.steps)
        )
        return Carried(back.call, back.path, first)

    def _in_step(self, loop: int, key: tuple[int, int], leaf: Any) -> Any:
        """The role of a value in one step of one recording."""
        step, length = key
        role = self._layout.outside(leaf, length)
        if not isinstance(role, Of) or role.loop != loop:
            return role
        if role.step == step:
            return Same(role.call, role.path)
        return _Back(role.call, role.path, step - role.step)

    def _row_of(self, key: tuple[int, int], role: Of) -> tuple[RowOf | None, RowOf | None]:
        """The row of another loop that this step reads: from the start, and from the end."""
        step, length = key
        last = self._layout.steps(role.loop, length) - 1
        shifts = (role.step - step, last - role.step - step)
        forward, backward = (
            RowOf(Run(role.loop, role.call, role.path, i == 1), shift) if shift >= 0 else None
            for i, shift in enumerate(shifts)
        )
        return forward, backward
