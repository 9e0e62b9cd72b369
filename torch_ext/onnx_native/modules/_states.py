"""Objects that hold no tensors, but have a state that a run of a program changes.

A generator of random numbers, an array of bytes, a variable of a context; an iterator, which
cannot go back.
"""

from __future__ import annotations

import array
import contextvars
import dataclasses
import functools
import gc
import itertools
import operator
import pickle
import random
from collections.abc import Callable, Iterator
from types import GeneratorType
from typing import Any

import numpy as np

_GLOBAL = random.getstate.__self__  # type: ignore[attr-defined]
_VALUES = (int, float, bool, str, bytes)
_MOST_ELEMENTS = 4096  # of an array that a program may count with, rather than one of data


@dataclasses.dataclass(frozen=True)
class _Kind:
    """Objects of a class, or of those with its name.

    Attributes:
        read: Returns the state of an object.
        write: Sets it; None if nothing can.
        effect: What a model keeps of a run that changes the state, for a warning; may be empty.
    """

    read: Callable[[Any], Any]
    write: Callable[[Any, Any], None] | None
    effect: str = ""


class State:
    """An object, and the state that it had.

    Attributes:
        name: What it is, and of what: ``a random.Random of a Model``.
    """

    def __init__(self, value: Any, owner: str) -> None:
        kind = _kind_of(value)
        assert kind is not None
        self.name = f"a {type(value).__module__}.{type(value).__qualname__} of a {owner}"
        self._value = value
        self._kind = kind
        self._was = kind.read(value)

    def restore(self) -> str:
        """Gives the object its state back.

        Returns:
            A warning, if it had changed and a model keeps what the program made of it.
        """
        if _is_same(self._kind.read(self._value), self._was):
            return ""
        if self._kind.write is not None:
            self._kind.write(self._value, self._was)
        return self._kind.effect and f"{self.name} {self._kind.effect}"


def has_state(value: Any) -> bool:
    """Whether a value is such an object. `_other_generators` has the generator of all programs."""
    return _kind_of(value) is not None and value is not _GLOBAL


def _kind_of(value: Any) -> _Kind | None:
    return _kind(type(value))  # type: ignore[arg-type]  # classes are hashable


@functools.lru_cache(maxsize=4096)
def _kind(kind: Any) -> _Kind | None:
    name = f"{kind.__module__}.{kind.__qualname__}"
    for each, found in _KINDS.items():
        if name == each if isinstance(each, str) else issubclass(kind, each):
            return found
    return _ITERATOR if issubclass(kind, Iterator) and kind.__module__ in _OF_PYTHON else None


def _is_same(now: Any, was: Any) -> bool:
    if isinstance(now, tuple) and isinstance(was, tuple):
        return len(now) == len(was) and all(map(_is_same, now, was))
    if isinstance(now, (int, bytes, str)):
        return bool(now == was)
    return now is was


def _position(iterator: Any) -> tuple[Any, ...]:
    """What is known of where an iterator, and those that it takes items from, stand."""
    if isinstance(iterator, GeneratorType):
        frame = iterator.gi_frame
        return (frame.f_lasti, *frame.f_locals.values()) if frame is not None else ()
    if isinstance(iterator, itertools.count):
        return (repr(iterator),)
    parts = gc.get_referents(iterator)
    parts += [inner for each in parts if type(each) is tuple for inner in each]
    inner = [_position(each) for each in parts if type(each) in _POSITIONS]
    numbers = [each for each in parts if type(each) is int]
    return (operator.length_hint(iterator, -1), *numbers, *inner)


def _read_array(value: np.ndarray) -> tuple[Any, ...]:
    if value.size > _MOST_ELEMENTS or value.dtype.hasobject:
        return ()
    return value.shape, np.ndarray.tobytes(value)  # that of a subclass may do something else


def _write_array(value: np.ndarray, state: tuple[Any, ...]) -> None:
    if not state:
        return
    shape, elements = state
    if value.shape != shape:
        np.ndarray.resize(value, shape, refcheck=False)
    np.asarray(value)[...] = np.ndarray(shape, value.dtype, elements)


def _read_bytes(value: Any) -> bytes | None:
    return bytes(value) if len(value) <= _MOST_ELEMENTS else None


def _write_bytes(value: Any, elements: bytes | None) -> None:
    if elements is None:
        return
    value[:] = elements if isinstance(value, bytearray) else array.array(value.typecode, elements)


def _read_variable(value: contextvars.ContextVar[Any]) -> tuple[Any, ...]:
    try:
        found = value.get()
    except LookupError:
        return ()
    return (found,) if type(found) in _VALUES else ()


def _write_variable(value: contextvars.ContextVar[Any], found: tuple[Any, ...]) -> None:
    if found:
        value.set(*found)


def _set_generator(value: Any, state: bytes) -> None:
    value.bit_generator.state = pickle.loads(state)


_DRAWS = (
    "drew random numbers during the export: they are constants of the model; draw them with "
    "PyTorch for new ones in every run"
)
_ADVANCES = (
    "advanced during the export, which cannot move it back: what it gave are constants of the model"
)
_POSITIONS: tuple[type, ...] = (
    type(iter([])),
    type(iter(())),
    type(iter(range(0))),
    itertools.count,
    GeneratorType,
)
_OF_PYTHON = ("builtins", "itertools")
_ITERATOR = _Kind(_position, None, _ADVANCES)
_KINDS: dict[Any, _Kind] = {
    random.Random: _Kind(random.Random.getstate, random.Random.setstate, _DRAWS),
    "numpy.random.mtrand.RandomState": _Kind(
        lambda value: pickle.dumps(value.get_state(legacy=False)),
        lambda value, state: value.set_state(pickle.loads(state)),
        _DRAWS,
    ),
    "numpy.random._generator.Generator": _Kind(
        lambda value: pickle.dumps(value.bit_generator.state), _set_generator, _DRAWS
    ),
    bytearray: _Kind(_read_bytes, _write_bytes),
    array.array: _Kind(_read_bytes, _write_bytes),
    np.ndarray: _Kind(_read_array, _write_array),
    contextvars.ContextVar: _Kind(_read_variable, _write_variable),
}
