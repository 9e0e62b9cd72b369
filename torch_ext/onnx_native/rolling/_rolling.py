"""Records a program whose loops run over a dynamic size, as a program with scans."""

from __future__ import annotations

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
        refusals: list[_recorder.StepAsideError] = []
        for symbol in recorder.lengths():
            try:
                return _rolled(recorder, symbol, ways)
            except NoLoopError as error:
                text = f"the loops over {symbol} are not rolled: {error}"
                refusals.insert(0, _recorder.StepAsideError(text, Kind.LOOP))
            except _recorder.StepAsideError as error:  # the size is not that of loops
                refusals.append(error)
        raise refusals[0] if refusals else _recorder.StepAsideError("no input has a dynamic size")


def _rolled(recorder: _recorder.Recorder, symbol: str, ways: bool) -> _recorder.Recorded:
    lowest, highest = recorder.bounds(symbol)
    base = max(_FIRST, lowest)
    lengths = [base, *(base + more for more in _AFTER)]
    lengths = [each for each in lengths if highest is None or each <= highest]
    if len(lengths) < _FEWEST:
        raise NoLoopError(f"{symbol} has too few values")
    axes, state = recorder.axes_of(symbol), recorder.state()
    warnings: list[str] = []
    recordings = {}

    def record(length: int) -> list[str]:
        program, notes = _program_at(recorder, symbol, length)
        recordings[length] = _calls.Calls(program, state, dict.fromkeys(axes, length))
        return notes

    for length in lengths:
        notes = record(length)
        warnings = warnings or notes
    for length in _SHORT:
        if lowest <= length < base:
            try:
                record(length)
            except (NoLoopError, _recorder.StepAsideError):
                continue  # the program may fail there
    place, axis = axes[0]
    rolled = _matching.rolled(recordings, base)
    runner = Runner(rolled, symbol, lambda inputs: inputs[place].shape[axis])
    try:
        recorded = recorder.of_program(runner)
        if ways and not _size_forks.join(recorder, recorded):
            recorded = recorder.of_program(runner)
    except _recorder.StepAsideError as error:
        raise NoLoopError(error.text.removeprefix(f"{NoLoopError.__name__}: ")) from error
    recorded.warnings += [each for each in warnings if each not in recorded.warnings]
    recorded.rolled = [
        {
            "steps": symbol if more == 0 else f"{symbol} {'+-'[more < 0]} {abs(more)}",
            "source": lines,
        }
        for more, lines in runner.lines()
    ]
    return recorded


def _program_at(
    recorder: _recorder.Recorder, symbol: str, length: int
) -> tuple[_recorded_program.Program, list[str]]:
    """The program at a length, without writes, and its warnings."""
    recorded = recorder.counted(symbol, length)
    native = recorded.native
    unseen = _unseen.found(native.lines(), recorder.model)
    if unseen is not None:
        raise NoLoopError(f"the program may decide on {unseen}")
    if native.sizes.lost_count():
        raise NoLoopError("it becomes a plain number in an unknown way")
    if recorded.known:
        raise NoLoopError("the program reads elements of its tensors")
    try:
        program = native.functional_program(_recorded_program.Builder())
    except (_library.extension().ExportError, NotImplementedError) as error:
        raise NoLoopError(first_line(error)) from error
    return program, recorded.warnings
