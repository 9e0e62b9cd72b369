"""Records a program whose loops run over a dynamic size, as a program with scans."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch

from onnx_native import _library
from onnx_native._refusals import Kind, first_line
from onnx_native.modules import _placeholders
from onnx_native.recording import _recorded_program, _recorder, _size_forks
from onnx_native.request import _inputs
from onnx_native.rolling import _calls, _matching, _unseen
from onnx_native.rolling._roles import NoLoopError
from onnx_native.rolling._runner import Runner

# Lengths at which loops are found: the first two. The others show that their rule holds. The last
# one is longer than most windows of programs: ``states[-4:]``.
_FIRST = 3
_AFTER = (1, 3, 17)
_FEWEST = 3
# The loops of a program run over so many sizes at most: each one takes recordings at all lengths.
_MOST_SIZES = 3
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


class _Loops:
    """Rolls the loops of a program."""

    def __init__(self, recorder: _recorder.Recorder) -> None:
        self._recorder = recorder
        self._state = recorder.state()

    def rolled(self, symbols: Sequence[str], ways: bool) -> _recorder.Recorded:
        """Records the program with its loops over some sizes; raises StepAsideError."""
        try:
            runner, warnings = self._runner(symbols, {})
            recorded = self._of_program(runner, {})
            if ways and not _size_forks.join(self._recorder, recorded):
                recorded = self._of_program(runner, {})
        except NoLoopError as error:
            text = f"the loops over {' and '.join(symbols)} are not rolled: {error}"
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

    def _runner(
        self, symbols: Sequence[str], lengths: Mapping[str, int]
    ) -> tuple[Runner, list[str]]:
        """Rolls the loops over these sizes, at fixed lengths of others; returns warnings too.

        The loops over the first size are found in recordings that have loops over the others.
        """
        symbol, *others = symbols
        recorder = self._recorder
        lowest, highest = recorder.bounds(symbol)
        base = max(_FIRST, lowest)
        # The longest one is recorded once, for loops in loops.
        after = _AFTER if all(each <= _FIRST for each in lengths.values()) else _AFTER[:-1]
        chosen = [base, *(base + more for more in after)]
        chosen = [each for each in chosen if highest is None or each <= highest]
        if len(chosen) < _FEWEST:
            raise NoLoopError(f"{symbol} has too few values")
        axes = recorder.axes_of(symbol)
        warnings: list[str] = []
        recordings = {}
        of_others: list[tuple[str, int, list[str]]] = []

        def record(length: int) -> None:
            fixed = {**lengths, symbol: length}
            if others:
                runner, notes = self._runner(others, fixed)
                of_others[:] = of_others or runner.lines()
                recorded = self._of_program(runner, fixed)
            else:
                recorded = recorder.counted(fixed)
                notes = recorded.warnings
            warnings.extend(note for note in notes if note not in warnings)
            program = _program_of(recorded, recorder.model)
            recordings[length] = _calls.Calls(program, self._state, dict.fromkeys(axes, length))

        for length in chosen:
            record(length)
        for length in _SHORT:
            if lowest <= length < base:
                try:
                    record(length)
                except (NoLoopError, _recorder.StepAsideError):
                    continue  # the program may fail there
        place, axis = axes[0]
        rolled = _matching.rolled(recordings, base)
        runner = Runner(rolled, symbol, lambda inputs: inputs[place].shape[axis], of_others)
        return runner, warnings

    def _of_program(self, runner: Runner, lengths: Mapping[str, int]) -> _recorder.Recorded:
        try:
            return self._recorder.of_program(runner, lengths)
        except _recorder.StepAsideError as error:
            raise NoLoopError(error.text.removeprefix(f"{NoLoopError.__name__}: ")) from error


def _program_of(recorded: _recorder.Recorded, model: torch.nn.Module) -> _recorded_program.Program:
    """The program of a recording at a length, without writes."""
    native = recorded.native
    unseen = _unseen.found(native.lines(), model)
    if unseen is not None:
        raise NoLoopError(f"the program may decide on {unseen}")
    if native.sizes.lost_count():
        raise NoLoopError("it becomes a plain number in an unknown way")
    if recorded.known:
        raise NoLoopError("the program reads elements of its tensors")
    try:
        program: _recorded_program.Program = native.functional_program(_recorded_program.Builder())
    except (_library.extension().ExportError, NotImplementedError) as error:
        raise NoLoopError(first_line(error)) from error
    return program
