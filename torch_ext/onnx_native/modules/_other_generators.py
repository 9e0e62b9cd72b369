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
    """Gives the generators their states back."""
    with _undo.at_end(functools.partial(_set_states, _states())):
        yield


class Draws:
    """What a program draws from the generators that it does not seed.

    Attributes:
        lines: The lines of the program that draw, by the name of the library.
    """

    def __init__(self) -> None:
        self.lines: dict[str, list[str]] = {}
        self._seeded: set[str] = set()

    def warnings(self) -> list[str]:
        return [
            f"the random numbers that {library} drew during the export are constants of the model; "
            "draw them with PyTorch for new ones in every run:" + "".join(f"\n  {x}" for x in lines)
            for library, lines in self.lines.items()
        ]

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Notes the draws of this thread, and gives the generators their states back."""
        states = _states()
        before = {library: pickle.dumps(state) for library, state in states.items()}
        with _undo.at_end(functools.partial(_set_states, states)), ExitStack() as stack:
            stack.enter_context(self._open())
            for library, module in _modules().items():
                stack.enter_context(_replaced.attributes(_replacements(library, module)))
            yield
            for library, state in _states().items():
                is_known = library in self.lines or library in self._seeded
                if not is_known and library in before and pickle.dumps(state) != before[library]:
                    self._note(library, "an unknown line")

    @contextmanager
    def _open(self) -> Iterator[None]:
        outer = _watching.draws
        with _undo.at_end(functools.partial(setattr, _watching, "draws", outer)):
            _watching.draws = self
            yield

    def note_call(self, library: str, name: str, has_arguments: Any) -> None:
        if name in _SEEDS and has_arguments:
            self._seeded.add(library)
        elif name == "default_rng":
            if not has_arguments:
                self._note(library, _warnings.user_line())
        elif name not in _SEEDS and library not in self._seeded:
            self._note(library, _warnings.user_line())

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


def _set_states(states: dict[str, Any]) -> None:
    random.setstate(states["Python"])
    if "NumPy" in states:
        sys.modules["numpy.random"].set_state(states["NumPy"])
