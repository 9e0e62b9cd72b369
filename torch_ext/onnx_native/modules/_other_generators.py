"""The global random number generators of Python and NumPy.

What a program draws from them becomes constants of the model: no capture sees these calls. An
export warns of numbers that differ from run to run, and leaves the generators as they were.
"""

from __future__ import annotations

import functools
import pickle
import random
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from types import ModuleType
from typing import Any

from onnx_native import _replaced, _undo, _warnings

_SEEDS = ("seed", "setstate", "set_state")
_STATES = ("getstate", "get_state")


@contextmanager
def kept() -> Iterator[None]:
    """Gives the generators their states back, if this thread draws from them."""
    with Draws().watched():
        yield


class Draws:
    """What a program draws from the generators that it does not seed.

    Attributes:
        lines: The lines of the program that draw, by the name of the library.
    """

    def __init__(self) -> None:
        self.lines: dict[str, list[str]] = {}
        self._seeded: set[str] = set()
        self._drawn: set[str] = set()
        self._outer: Draws | None = None

    def warnings(self) -> list[str]:
        return [
            f"the random numbers that {library} drew during the export are constants of the model; "
            "draw them with PyTorch for new ones in every run:" + "".join(f"\n  {x}" for x in lines)
            for library, lines in self.lines.items()
        ]

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Notes the draws of this thread, and gives the generators their states back.

        What other threads draw meanwhile stays drawn: a change that no call here explains may be
        theirs.
        """
        states = {library: (state, pickle.dumps(state)) for library, state in _states().items()}

        def put_back() -> None:
            for library, state in _states().items():
                old, content = states.get(library, (None, None))
                if old is not None and pickle.dumps(state) != content:
                    may_be_of_others = threading.active_count() > 1
                    if library not in self._drawn:
                        others = ", or another thread" if may_be_of_others else ""
                        self._note(library, f"an unknown line{others}")
                    if library in self._drawn or not may_be_of_others:
                        _set_state(library, old)

        outer, self._outer = _watching.draws, _watching.draws
        with _undo.at_end(put_back), ExitStack() as stack:
            stack.enter_context(_undo.at_end(functools.partial(setattr, _watching, "draws", outer)))
            _watching.draws = self
            for library, module in _modules().items():
                stack.enter_context(_replaced.attributes(_replacements(library, module)))
            yield

    def note_call(self, library: str, name: str, has_arguments: Any) -> None:
        self._drawn.add(library)
        if name in _SEEDS and has_arguments:
            self._seeded.add(library)
        elif name == "default_rng":
            if not has_arguments:
                self._note(library, _warnings.user_line())
        elif name not in _SEEDS and library not in self._seeded:
            self._note(library, _warnings.user_line())
        if self._outer is not None:
            self._outer.note_call(library, name, has_arguments)

    def _note(self, library: str, line: str) -> None:
        lines = self.lines.setdefault(library, [])
        if line not in lines:
            lines.append(line)


class _Watching(threading.local):
    draws: Draws | None = None


_watching = _Watching()


def _replacements(library: str, module: ModuleType) -> list[tuple[Any, str, Callable[..., Any]]]:
    return [
        (module, name, _noting(library, name, function))
        for name, function in list(vars(module).items())
        if _is_of_generator(name, function) and name not in _STATES
    ]


@functools.lru_cache(maxsize=1024)
def _noting(library: str, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def called(*args: Any, **kwargs: Any) -> Any:
        if _watching.draws is not None:
            _watching.draws.note_call(library, name, args or kwargs)
        return function(*args, **kwargs)

    return called


def _modules() -> dict[str, ModuleType]:
    """The modules of the generators that exist, by the names of their libraries."""
    modules = {"Python": random}
    if "numpy.random" in sys.modules:
        modules["NumPy"] = sys.modules["numpy.random"]
    return modules


def _is_of_generator(name: str, function: Any) -> bool:
    owner = getattr(function, "__self__", None)
    of_generator = isinstance(owner, random.Random) or type(owner).__name__ == "RandomState"
    return of_generator or name in ("seed", "default_rng", "ranf", "sample")


def _states() -> dict[str, Any]:
    states: dict[str, Any] = {"Python": random.getstate()}
    if "numpy.random" in sys.modules:
        states["NumPy"] = sys.modules["numpy.random"].get_state(legacy=False)
    return states


def _set_state(library: str, state: Any) -> None:
    if library == "Python":
        random.setstate(state)
    else:
        sys.modules["numpy.random"].set_state(state)
