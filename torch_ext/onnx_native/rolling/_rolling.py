"""Records a program whose loops run over a dynamic size, as a program with scans."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Mapping, Sequence

import torch

from onnx_native import _library
from onnx_native._refusals import Kind, first_line
from onnx_native.modules import _placeholders
from onnx_native.recording import _recorded_program, _recorder, _size_forks
from onnx_native.request import _inputs
from onnx_native.rolling import _calls, _matching, _unseen
from onnx_native.rolling._count import Count, evaluated
from onnx_native.rolling._roles import NoLoopError
from onnx_native.rolling._runner import Runner

# Lengths at which loops are found: the first two. The others show that their rule holds. The last
# one is longer than most windows of programs: ``states[-4:]``.
_FIRST = 3
_AFTER = (1, 3, 17)
_FEWEST = 3
# The loops of a program run over so many sizes at most: each one takes recordings at all lengths.
_MOST_SIZES = 3
# The largest size at which loops are recorded whose steps take several rows each.
_LARGEST = 4096
# Shorter lengths, at which the program may do something else.
_SHORT = (1, 2)


def capture(
    model: torch.nn.Module,
    inputs: _inputs.Inputs,
    opset: int | None = None,
    *,
    ways: bool = False,
) -> _recorder.Recorded:
    """Records a module at several lengths, and rolls the loops in which the recordings differ.

    With `ways`, other ways are recorded that the program takes for other sizes.

    Raises:
        StepAsideError: The recordings differ in another way, or cannot be made.
    """
    with _placeholders.in_module(model):
        recorder = _recorder.Recorder(model, inputs, opset)
        loops = _Loops(recorder)
        refusals: list[_recorder.StepAsideError] = []
        for symbol in recorder.lengths():
            try:
                return loops.rolled([symbol], ways)
            except _recorder.StepAsideError as error:
                # A size that is not that of loops does not say why.
                refusals.insert(
                    0 if isinstance(error.__cause__, NoLoopError) else len(refusals), error
                )
        needed = {symbol for each in refusals for symbol in each.loops}
        symbols = [symbol for symbol in recorder.lengths() if symbol in needed]
        if 1 < len(symbols) <= _MOST_SIZES:
            return loops.rolled(symbols, ways)
        raise refusals[0] if refusals else _recorder.StepAsideError("no input has a dynamic size")


def capture_pieces(
    model: torch.nn.Module,
    inputs: _inputs.Inputs,
    opset: int | None,
    steps: Sequence[str],
    *,
    ways: bool = False,
) -> _recorder.Recorded:
    """Records a module whose loops run over pieces of a size, and rolls them.

    Args:
        model: The module.
        inputs: The example.
        opset: The opset.
        steps: How many steps its loops have, as expressions of sizes: "(n + 63)//64".
        ways: See capture().

    Raises:
        StepAsideError: The recordings differ in another way, or cannot be made.
    """
    with _placeholders.in_module(model):
        loops = _Loops(_recorder.Recorder(model, inputs, opset))
        first: _recorder.StepAsideError | None = None
        for each in steps:
            try:
                return loops.rolled([each], ways)
            except _recorder.StepAsideError as error:
                first = first or error
        assert first is not None
        raise first


class _Loops:
    """Rolls the loops of a program."""

    def __init__(self, recorder: _recorder.Recorder) -> None:
        self._recorder = recorder
        self._state = recorder.state()

    def rolled(self, names: Sequence[str], ways: bool) -> _recorder.Recorded:
        """Records the program with its loops over some sizes; raises StepAsideError."""
        try:
            runner, warnings = self._runner(names, {})
            recorded = self._of_program(runner)
            if ways and not _size_forks.join(self._recorder, recorded):
                recorded = self._of_program(runner)
        except NoLoopError as error:
            text = f"the loops over {' and '.join(names)} are not rolled: {error}"
            raise _recorder.StepAsideError(text, Kind.LOOP) from error
        recorded.warnings += [each for each in warnings if each not in recorded.warnings]
        recorded.rolled = [
            {
                "steps": name if more == 0 else f"{name} {'+-'[more < 0]} {abs(more)}",
                "source": lines,
            }
            for name, more, lines in runner.lines()
        ]
        return recorded

    def _runner(self, names: Sequence[str], lengths: Mapping[str, int]) -> tuple[Runner, list[str]]:
        """Rolls the loops over these sizes, at fixed lengths of others; returns warnings too.

        The loops over the first size are found in recordings that have loops over the others.
        """
        name, *others = names
        count = self._count(name)
        recorder = self._recorder
        base = max(_FIRST, count.lowest)
        # The longest one is recorded once, for loops in loops.
        after = _AFTER if all(each <= _FIRST for each in lengths.values()) else _AFTER[:-1]
        chosen = [base, *(base + more for more in after)]
        chosen = [each for each in chosen if count.size(each) is not None]
        if len(chosen) < _FEWEST:
            raise NoLoopError(f"{name} has too few values")
        warnings: list[str] = []
        recordings = {}
        of_others: list[tuple[str, int, list[str]]] = []

        def record(length: int) -> None:
            size = count.size(length)
            assert size is not None
            fixed = {**lengths, count.symbol: size}
            if others:
                runner, notes = self._runner(others, fixed)
                of_others[:] = of_others or runner.lines()
                recorded = self._recorder.of_program(runner, fixed, counts=True)
            else:
                recorded = recorder.counted(fixed)
                notes = recorded.warnings
            warnings.extend(note for note in notes if note not in warnings)
            program, written = _program_of(recorded, recorder.model)
            recordings[length] = _calls.Calls(
                program, written, self._state, dict.fromkeys(count.axes, length)
            )

        for length in chosen:
            record(length)
            if len(recordings) == 2:  # the others take longer
                _matching.check(recordings, base)
        for length in _SHORT:
            if length < base and count.size(length) is not None:
                try:
                    record(length)
                except (NoLoopError, _recorder.StepAsideError):
                    continue  # the program may fail there
        rolled = _matching.rolled(recordings, base)
        return Runner(rolled, count, of_others, self._state), warnings

    def _count(self, name: str) -> Count:
        """What loops count: a size, or an expression of one."""
        recorder = self._recorder
        symbol, *more = _symbols(name, recorder.lengths()) or [name]
        if more:
            raise NoLoopError("the steps depend on several sizes")
        lowest, highest = recorder.bounds(symbol)
        axes = recorder.axes_of(symbol)
        if symbol == name:
            return Count(name, symbol, lowest, axes, lambda n: _within(n, lowest, highest), axes[0])
        sizes: dict[int, list[int]] = {}
        for size in range(lowest, min(highest or _LARGEST, _LARGEST) + 1):
            sizes.setdefault(evaluated(name, {symbol: size}), []).append(size)
        # The last piece is as long as in the example.
        example = recorder.example(symbol)
        place = next((found.index(example) for found in sizes.values() if example in found), 0)
        chosen = {steps: found[min(place, len(found) - 1)] for steps, found in sizes.items()}
        return Count(name, symbol, min(chosen), [], chosen.get, axes[0])

    def _of_program(self, runner: Runner) -> _recorder.Recorded:
        """Records the rolled program at the sizes of the example, or at one with more steps."""
        try:
            return self._recorder.of_program(runner, {})
        except _recorder.StepAsideError as error:
            symbol, size = runner.count.symbol, runner.count.size(_FIRST)
            if size is not None and size > self._recorder.example(symbol):
                with contextlib.suppress(_recorder.StepAsideError):
                    return self._recorder.of_program(runner, {symbol: size})
            raise _as_no_loop(error) from error


def _as_no_loop(error: _recorder.StepAsideError) -> NoLoopError:
    return NoLoopError(error.text.removeprefix(f"{NoLoopError.__name__}: "))


def _symbols(expression: str, known: Sequence[str]) -> list[str]:
    """The symbols of an expression."""
    return [symbol for symbol in known if re.search(rf"\b{re.escape(symbol)}\b", expression)]


def _within(size: int, lowest: int, highest: int | None) -> int | None:
    return size if lowest <= size and (highest is None or size <= highest) else None


def _program_of(
    recorded: _recorder.Recorded, model: torch.nn.Module
) -> tuple[_recorded_program.Program, list[str | int]]:
    """The program of a recording at a length, without writes, and the tensors that it writes to."""
    native = recorded.native
    unseen = _unseen.found(native.lines(), model)
    if unseen is not None:
        raise NoLoopError(f"the program may decide on {unseen}")
    if native.sizes.lost_count():
        raise NoLoopError("it becomes a plain number in an unknown way")
    if recorded.known:
        raise NoLoopError("the program reads elements of its tensors")
    try:
        return native.functional_program(_recorded_program.Builder())
    except (_library.extension().ExportError, NotImplementedError) as error:
        raise NoLoopError(first_line(error)) from error
