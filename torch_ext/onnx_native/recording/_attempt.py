"""Attempts to record a program, and what they leave behind."""

from __future__ import annotations

import contextlib
import gc
import traceback
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from onnx_native import _library, _undo
from onnx_native._refusals import Kind, Refusal, summary
from onnx_native.modules import _generators, _other_generators
from onnx_native.numbers import _declared_sizes, _functions_of_sizes
from onnx_native.recording import _kept_values, _leaves, _run
from onnx_native.upstream import _upstream

if TYPE_CHECKING:
    from onnx_native._C import Capture


_STATE = (
    "the program was recorded more than once, and did something else the second time: it keeps "
    "state that an export cannot restore, and the model is not that of its next call"
)


class Attempts:
    """Records a program, as often as it takes."""

    def __init__(self, example: Mapping[str, int]) -> None:
        """Takes the dynamic sizes and integers of the example, by the names of their symbols."""
        self._example = example
        self._needs = _functions_of_sizes.Needs()
        # Whether the program has symbolic numbers, or was refused without.
        self._has_numbers = bool(example)
        self._keeps = False  # the program kept tensors elsewhere than in its module
        # What a refused recording of these sizes called: the next one starts likewise.
        self._calls: tuple[_declared_sizes.LeafSizes, list[int]] | None = None

    def restart(self) -> None:
        """Forgets what was called: the next recording is of another program, or at other sizes."""
        self._calls = None

    def record(
        self,
        native: Capture,
        leaves: Sequence[Any],
        sizes: _declared_sizes.LeafSizes,
        notes: list[str],
        *arguments: Any,
    ) -> tuple[Refusal | None, bool]:
        """Records the program; returns why not, and whether another attempt may know more.

        Args:
            native: The recording.
            leaves: The leaves of the arguments.
            sizes: Their sizes.
            notes: Gets what the model lacks, for the user.
            arguments: What else `_run.run` takes.
        """
        unfinished = [native]
        if self._calls is not None and self._calls[0] is sizes:
            native.follow(self._calls[1])

        def end() -> None:
            for each in unfinished:
                _kept_values.make_eager_after_failure(each, self._example)

        _undo.after_interrupt(end)
        # Functions of PyTorch, one that prints a tensor for example, hold guards of dispatch keys
        # in variables. An exception that holds their frames ends them late, in the wrong order.
        with _collecting_later(), _library.extension().KeptDispatchKeys():
            needs = self._needs if self._has_numbers else None
            refusal, has_more = self._run(needs, native, notes, leaves, sizes, *arguments)
            if refusal is None:
                inputs = _leaves.flattener(leaves, sizes)(leaves, {})
                depends = _kept_values.make_eager(native, inputs, self._example)
                if depends is not None:
                    refusal = Refusal("the program keeps tensors or sizes outside of its module")
                    has_more = not depends and not self._keeps
                    self._keeps = True
            else:
                _kept_values.make_eager_after_failure(native, self._example)
        unfinished.clear()
        self._calls = (sizes, native.calls()) if refusal is not None and has_more else None
        if refusal is None and native.runs_differ():
            notes.append(_STATE)
        if refusal is None and not native.finish():
            refusal = _refusal(native)
        return refusal, has_more

    def _run(
        self,
        needs: _functions_of_sizes.Needs | None,
        native: Capture,
        notes: list[str],
        *arguments: Any,
    ) -> tuple[Refusal | None, bool]:
        draws = _other_generators.Draws()
        try:
            with (
                _upstream.without_compiler() as stopped,
                _generators.initial_seed_of_caller(),
                draws.watched(),
            ):
                _run.run(native, needs, notes, *arguments)
            notes += draws.warnings()
        except Exception as error:
            own = Refusal(summary(error), Kind.FAILURE)
            refusal = _refusal(native) if native.reason() else own
            has_more = self._needs.learn(error) or needs is None
            _clear_frames(error)
            if not stopped:
                self._has_numbers = True
                return refusal, has_more
        if stopped:
            _upstream.import_compiler()
            return Refusal("the program imports TorchDynamo"), True
        refused = _refusal(native) if native.reason() else None
        if needs is not None or (refused is None and not native.sizes.has_symbolic()):
            return refused, False
        self._has_numbers = True
        return refused or Refusal("the program reads numbers from data"), True


def _refusal(native: Capture) -> Refusal:
    """Returns why the recorder refuses the program."""
    return Refusal(native.reason(), Kind[native.refusal_kind().name])


@contextlib.contextmanager
def _collecting_later() -> Iterator[None]:
    """Keeps the reference cycles of a recording young, so that they are found fast."""
    with _undo.at_end(gc.enable if gc.isenabled() else gc.disable, of_process=True):
        gc.disable()
        yield


def _clear_frames(error: BaseException | None) -> None:
    """Frees the local variables of the calls that ended in an exception."""
    while error is not None:
        traceback.clear_frames(error.__traceback__)
        error = error.__cause__ or error.__context__
