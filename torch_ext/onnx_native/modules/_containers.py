"""Containers in which a program may keep tensors: dicts, lists, attributes of objects."""

from __future__ import annotations

import collections
import gc
import operator
from collections.abc import Iterable, Iterator
from types import (
    CellType,
    FunctionType,
    MemberDescriptorType,
    ModuleType,
)
from typing import Any

import numpy as np
import torch

PLAIN = frozenset((int, float, str, bool, type(None), torch.Tensor, torch.nn.Parameter))
_SEQUENCES = (list, collections.deque)
CONTAINERS = (dict, *_SEQUENCES)
LEAVES = (torch.Tensor, torch.nn.Module, type, FunctionType, ModuleType)
# Their objects keep no tensors of a program.
_LIBRARIES = ("torch.", "builtins.", "numpy.", "threading.", "logging.")
_EMPTY = object()  # in place of what a slot does not have


class Contents:
    """A container, and what was in it: entries of a dict by key, of a list or deque by index.

    A variable of a closure (a cell), the slots of an object, arrays of objects and sets are
    containers too.

    Attributes:
        held: The container. For the attributes of an object, their dict.
        owner: The object whose attributes these are, or None.
        was: What was in it.
    """

    def __init__(self, held: Any, owner: Any = None) -> None:
        self.held = held
        self.owner = owner
        self.was = self.now()

    def now(self) -> dict[Any, Any]:
        held = self.held
        if isinstance(held, _SEQUENCES):
            kind: Any = list if isinstance(held, list) else collections.deque
            return dict(enumerate(kind.__iter__(held)))
        if isinstance(held, np.ndarray):
            return dict(enumerate(held.flat))
        if isinstance(held, set):
            return {id(value): value for value in held}
        if type(held) is dict:
            return dict(held)
        if isinstance(held, dict):  # a class of the user may make values when they are read
            kind = collections.OrderedDict if isinstance(held, collections.OrderedDict) else dict
            return {key: dict.__getitem__(held, key) for key in kind.__iter__(held)}
        found = {name: _content(held, slot) for name, slot in slots(held).items()}
        return {name: value for name, value in found.items() if value is not _EMPTY}

    def is_unchanged(self) -> bool:
        """Whether the container has the same objects in the same order. Copies nothing of most."""
        was, held = self.was, self.held
        if type(held) is list:
            return len(held) == len(was) and all(map(operator.is_, held, was.values()))
        now = held if type(held) is dict else self.now()
        return (
            len(now) == len(was)
            and all(map(operator.is_, now.values(), was.values()))
            and all(map(operator.eq, now, was))
        )

    def changes(self) -> list[tuple[Any, Any, Any]]:
        """Entries that are new, gone or others than before: (key, old, new)."""
        if self.is_unchanged():
            return []
        was, now = self.was, self.now()
        found = [(key, was.get(key), now.get(key)) for key in {**was, **now}]
        return [change for change in found if change[1] is not change[2]]

    def put_back(self, keys: Iterable[Any]) -> None:
        """Gives entries their old values, or removes new ones.

        Restores others as a whole, but for a list that has as many entries as before.
        """
        if isinstance(self.held, list) and len(self.held) == len(self.was):
            for key in keys:
                self.held[key] = self.was[key]
            return
        if not isinstance(self.held, dict):
            self.restore()
            return
        for key in keys:
            if key in self.was:
                self.held[key] = self.was[key]
            else:
                self.held.pop(key, None)

    def restore(self) -> None:
        """Gives the container its old contents, in the old order, if it has others."""
        if self.is_unchanged():
            return  # a frozen dict has no update()
        if isinstance(self.held, set):
            self.held.clear()
            self.held.update(self.was.values())
        elif not isinstance(self.held, (dict, *_SEQUENCES)):
            for key, _, _ in self.changes():
                self._restore_part(key)
        elif isinstance(self.held, list):
            self.held[:] = self.was.values()
        elif isinstance(self.held, _SEQUENCES):
            self.held.clear()
            self.held.extend(self.was.values())
        elif [key for key in self.held if key in self.was] != list(self.was):
            self.held.clear()  # each entry has its place in the order again
            self.held.update(self.was)
        else:  # never empty: another thread may read it, and an interrupt may come
            for key in [key for key in self.held if key not in self.was]:
                del self.held[key]
            self.held.update(self.was)

    def _restore_part(self, key: Any) -> None:
        if isinstance(self.held, np.ndarray):
            self.held.flat[key] = self.was[key]
        elif key in self.was:
            slots(self.held)[key].__set__(self.held, self.was[key])  # the object may be frozen
        else:
            slots(self.held)[key].__delete__(self.held)


def slots(value: Any) -> dict[str, Any]:
    """The slots of an object by name, with what reads and writes them; for a cell, its contents.

    A slot is not read by its name, which a subclass may give to a property.
    """
    if isinstance(value, CellType):
        return {"cell_contents": vars(CellType)["cell_contents"]}
    return {
        name: slot
        for kind in reversed(type(value).__mro__)
        if "__slots__" in vars(kind) and is_of_user(kind)
        for name, slot in vars(kind).items()
        if isinstance(slot, MemberDescriptorType)
    }


def _content(held: Any, slot: Any) -> Any:
    try:
        return slot.__get__(held)
    except (AttributeError, ValueError):  # of an empty slot, of an empty cell
        return _EMPTY


def leaves(value: Any, most: int = 1000) -> Iterator[Any]:
    """Yields what a value holds in containers and objects, at any depth.

    Looks at no more than `most` values.
    """
    open_ = [value]
    seen: set[int] = set()
    while open_ and len(seen) < most:
        value = open_.pop()
        if type(value) in PLAIN or isinstance(value, LEAVES):
            yield value
            continue
        if id(value) in seen:
            continue
        seen.add(id(value))
        if isinstance(value, dict):
            open_.extend(value.values())
        elif isinstance(value, (tuple, set, frozenset, *_SEQUENCES)):
            open_.extend(value)  # `+=` would call an __radd__ of the value
        else:
            yield value
            open_.extend(getattr(value, "__dict__", {}).values())


def holds(value: Any, *kinds: type) -> bool:
    """Whether a value is, or holds at any depth, one of these kinds."""
    return any(isinstance(leaf, kinds) for leaf in leaves(value))


def reached(value: Any, most: int = 1000) -> Iterator[Any]:
    """Yields what a value refers to at any depth, also in generators and objects of C.

    Looks at no more than `most` values.
    """
    open_ = [value]
    seen: set[int] = set()
    while open_ and len(seen) < most:
        value = open_.pop()
        if type(value) in PLAIN or id(value) in seen:
            yield value
            continue
        seen.add(id(value))
        yield value
        if isinstance(value, FunctionType):
            open_ += [value.__closure__, value.__defaults__, value.__kwdefaults__]
        elif isinstance(value, np.ndarray) and value.dtype == object:
            open_.extend(value.flat)
        elif not isinstance(value, LEAVES):
            open_ += gc.get_referents(value)


def is_of_user(kind: type | FunctionType) -> bool:
    return not f"{kind.__module__}.".startswith(_LIBRARIES)
