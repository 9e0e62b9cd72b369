"""Branches on sizes in a native capture: a program that takes another way for other sizes.

A recording is valid where the program decides as for the example: these are its guards. The program
is recorded again at sizes against a guard. One graph then has both ways, with a condition where
they differ. If they do not differ, the guard is gone. A guard stays if the program fails on the
other way, which the model then need not have, or if one graph cannot hold both.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from onnx_native import _library
from onnx_native._refusals import Kind
from onnx_native.recording import _recorder

if TYPE_CHECKING:
    from onnx_native._C import Capture, Sizes

_MOST_WAYS = 8  # that are recorded; a program with more keeps its guards


@dataclasses.dataclass(frozen=True)
class _Condition:
    """A condition on the sizes, as a recording decided it.

    Attributes:
        text: The condition: "n > 512".
        opposite: What is true where it is false.
        source: The source line that decides.
        sizes: The sizes of the recording.
        guard: Its number among the guards there.
        is_opposite: Whether the guard is its opposite.
    """

    text: str
    opposite: str
    source: str = dataclasses.field(compare=False)
    sizes: Sizes = dataclasses.field(compare=False)
    guard: int = dataclasses.field(compare=False)
    is_opposite: bool = dataclasses.field(default=False, compare=False)

    def holds(self, sizes: Mapping[str, int]) -> bool:
        """Whether it is true for these sizes."""
        return self.sizes.holds(self.guard, dict(sizes)) != self.is_opposite

    def negated(self) -> _Condition:
        return dataclasses.replace(
            self, text=self.opposite, opposite=self.text, is_opposite=not self.is_opposite
        )

    def implies(self, other: _Condition) -> bool:
        """Whether it is proven that another condition is true where this one is."""
        return not other.is_opposite and self.sizes.implies(
            self.guard, not self.is_opposite, other.sizes, other.guard
        )


# One of these conditions must be true.
_Clause = tuple[_Condition, ...]


def join(
    recorder: _recorder.Recorder, recorded: _recorder.Recorded, way: _Way | None = None
) -> bool:
    """Gives a recording the other ways of the program, as far as they can be recorded.

    Returns whether the program has no more ways than are followed.

    Args:
        recorder: Records the program.
        recorded: The recording, of the example unless there is a `way`.
        way: What distinguishes it from one of the example.
    """
    ways = _Ways(recorder)
    clauses = ways.join(recorded, way or _Way())
    static = [guard for guard in recorded.guards if "note" in guard]
    recorded.guards = static + [_described(clause) for clause in clauses]
    recorded.sizes.allows = lambda sizes: all(
        any(condition.holds(sizes) for condition in clause) for clause in clauses
    )
    return ways.are_all


class _TooManyWaysError(_recorder.StepAsideError):
    """A program has more ways than are recorded."""


def of_pinned(recorder: _recorder.Recorder) -> _recorder.Recorded:
    """Records a program that fixes a size of the example, as several ways.

    Raises:
        StepAsideError: The ways cannot be recorded, or one graph cannot hold them.
    """
    try:
        # The way of the example is special. It may be that of the others, with a number for a size.
        return _of_way(recorder, _Way(recorder.larger()))
    except _TooManyWaysError:
        raise
    except _recorder.StepAsideError:
        return _of_way(recorder, _Way())


def _of_way(recorder: _recorder.Recorder, way: _Way) -> _recorder.Recorded:
    recorded = recorder.way(way.sizes, sorted(way.fixed))
    if not join(recorder, recorded, way):
        raise _TooManyWaysError("the program has too many ways", Kind.PINNED_SIZE)
    if not recorded.sizes.allows(recorded.sizes.example):
        raise _recorder.StepAsideError("the way of the example is not recorded", Kind.PINNED_SIZE)
    remaining = {guard["condition"] for guard in recorded.guards}
    sizes = recorded.native.sizes
    kept = [i for i, guard in enumerate(sizes.guards()) if guard.condition in remaining]
    for name in recorder.lengths():
        if name in recorded.sizes.example and sizes.fix(name, kept):
            raise _recorder.StepAsideError(f"the program fixes the size {name}", Kind.PINNED_SIZE)
    return recorded


@dataclasses.dataclass(frozen=True)
class _Way:
    """One way of a program.

    Attributes:
        sizes: Sizes that are not the example's.
        fixed: Those that have no other value on this way.
        decided: The conditions that led to it.
    """

    sizes: Mapping[str, int] = dataclasses.field(default_factory=dict)
    fixed: frozenset[str] = frozenset()
    decided: frozenset[str] = frozenset()


class _Ways:
    """Records the ways of a program.

    Attributes:
        are_all: Whether all ways were recorded that may be recorded.
    """

    def __init__(self, recorder: _recorder.Recorder) -> None:
        self.are_all = True
        self._recorder = recorder
        self._recordings = 1

    def join(self, recorded: _recorder.Recorded, way: _Way) -> list[_Clause]:
        """Joins other ways to a recording, and returns where the result is valid.

        Args:
            recorded: The recording.
            way: What distinguishes it from those recorded before.
        """
        native = recorded.native
        conditions = list(_conditions(native))
        clauses: list[_Clause] = [(each,) for each in conditions]
        # The last one first: the ways from an earlier one on differ in more.
        for i, condition in reversed(list(enumerate(conditions))):
            found = None if condition.text in way.decided else native.sizes.sizes_against(i)
            if found is None:
                continue
            if self._recordings == _MOST_WAYS:
                self.are_all = False
                break
            self._recordings += 1
            sizes, fixed = found
            earlier = {each.text for each in conditions[:i]}
            next_way = _Way(
                {**way.sizes, **sizes},
                way.fixed | set(fixed),
                way.decided | earlier | {condition.opposite},
            )
            try:
                other = self._recorder.way(next_way.sizes, sorted(next_way.fixed))
                is_other = recorded.structure is not None and other.structure != recorded.structure
                unrolls = not recorded.unrolled and _unrolls(condition, other)
                if is_other or unrolls or _counts(condition, other.native):
                    continue
                others = self.join(other, next_way)
                if fixed:  # they have their one value where the earlier conditions are true
                    others += [(each,) for each in conditions[:i] if (each,) not in others]
                differs = native.join(other.native, i, {name: sizes[name] for name in fixed})
            except (_recorder.StepAsideError, _library.extension().ExportError):
                continue
            recorded.ways += other.ways if differs else 0
            clauses = list(_either(condition, clauses, others))
            recorded.known += [each for each in other.known if each not in recorded.known]
            recorded.warnings += [each for each in other.warnings if each not in recorded.warnings]
        return clauses


def _unrolls(condition: _Condition, other: _recorder.Recorded) -> bool:
    """Whether a loop of another way has another number of steps at other sizes of this way."""
    return any(
        f"{steps} == " in each.text and not condition.negated().implies(each)
        for steps in other.unrolled
        for each in _conditions(other.native)
    )


def _counts(condition: _Condition, other: Capture) -> bool:
    """Whether another way compares with another number in the same line: each size has its own.

    A loop ends so: ``while i < n`` decides ``n <= 5`` for 5, and ``n <= 6`` for 6.
    """
    compared, _, number = condition.text.rpartition(" ")
    return (
        any(
            guard.source == condition.source
            and guard.condition != condition.text
            and guard.condition.rpartition(" ")[0] == compared
            for guard in other.sizes.guards()
        )
        and number.lstrip("-").isdigit()
    )


def _conditions(native: Capture) -> Iterable[_Condition]:
    for i, guard in enumerate(native.sizes.guards()):
        yield _Condition(guard.condition, guard.opposite, guard.source, native.sizes, i)


def _either(
    condition: _Condition, clauses: Iterable[_Clause], others: Iterable[_Clause]
) -> Iterable[_Clause]:
    """Returns where one of two ways is valid: between them the condition decides."""
    opposite = condition.negated()
    first = _given(condition, clauses)
    second = _given(opposite, others)
    for clause in first:
        yield clause if clause in second else (*clause, opposite)
    for clause in second:
        if clause not in first:
            yield (*clause, condition)


def _given(condition: _Condition, clauses: Iterable[_Clause]) -> list[_Clause]:
    """Returns what clauses still demand where a condition is true."""
    opposite = condition.negated()
    return [
        tuple(each for each in clause if each != opposite)
        for clause in clauses
        if condition not in clause and not any(map(condition.implies, clause))
    ]


def _described(clause: _Clause) -> dict[str, str]:
    return {"condition": " or ".join(each.text for each in clause), "source": clause[0].source}
