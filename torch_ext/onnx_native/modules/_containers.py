"""Containers of a module in which a program may keep tensors: dicts, lists, objects, caches."""

from __future__ import annotations

import collections
import dis
import functools
import gc
import operator
import sys
from collections.abc import Iterable, Iterator, Mapping, Set
from types import (
    CellType,
    FunctionType,
    GetSetDescriptorType,
    MappingProxyType,
    MethodType,
    ModuleType,
    SimpleNamespace,
)
from typing import Any

import numpy as np
import torch

_PLAIN = frozenset((int, float, str, bool, type(None), torch.Tensor, torch.nn.Parameter))
# What classes have besides functions.
_INERT = _PLAIN | {property, GetSetDescriptorType, MappingProxyType}
_NUMBERS = frozenset((int, float, bool))
_SEQUENCES = (list, collections.deque)
_WRITES = dis.opmap["STORE_GLOBAL"]
_LEAVES = (torch.Tensor, torch.nn.Module, type, FunctionType, ModuleType)
_LruCache = type(functools.lru_cache(lambda: None))
# Dicts of every module in which a program keeps no tensors.
_HOOKS = frozenset(vars(torch.nn.Module())) - {"_parameters", "_buffers", "_modules"}
# Their objects keep no tensors of a program.
_LIBRARIES = ("torch.", "builtins.", "numpy.", "threading.", "logging.")


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
            return dict(enumerate(held))
        if isinstance(held, np.ndarray):
            return dict(enumerate(held.flat))
        if isinstance(held, set):
            return {id(value): value for value in held}
        if isinstance(held, dict):
            return dict(held)
        return {name: getattr(held, name) for name in _slots(held) if hasattr(held, name)}

    def is_unchanged(self) -> bool:
        """Whether the container has the same objects in the same order. Copies nothing of most."""
        was, held = self.was, self.held
        if isinstance(held, list):
            return len(held) == len(was) and all(map(operator.is_, held, was.values()))
        now = held if isinstance(held, dict) else self.now()
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
        """Gives entries their old values, or removes new ones; restores others as a whole."""
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
        elif list(self.held) != list(self.was) and self.was.keys() - self.held.keys():
            self.held.clear()  # an entry that is gone has its place in the order again
            self.held.update(self.was)
        else:  # never empty: another thread may read it, and an interrupt may come
            for key in [key for key in self.held if key not in self.was]:
                del self.held[key]
            self.held.update(self.was)

    def _restore_part(self, key: Any) -> None:
        if isinstance(self.held, np.ndarray):
            self.held.flat[key] = self.was[key]
        elif key in self.was:
            object.__setattr__(self.held, key, self.was[key])  # the object may be frozen
        else:
            object.__delattr__(self.held, key)


def _slots(value: Any) -> list[str]:
    """The names of what an object has in slots; for a cell, that of its contents."""
    if isinstance(value, CellType):
        return ["cell_contents"]
    found: list[str] = []
    for kind in type(value).__mro__:
        names = vars(kind).get("__slots__", ()) if _is_of_user(kind) else ()
        for name in [names] if isinstance(names, str) else names:
            is_private = name.startswith("__") and not name.endswith("__")
            found.append(f"_{kind.__name__.lstrip('_')}{name}" if is_private else name)
    return [name for name in found if name not in ("__dict__", "__weakref__")]


def leaves(value: Any, most: int = 1000) -> Iterator[Any]:
    """Yields what a value holds in containers and objects, at any depth.

    Looks at no more than `most` values.
    """
    open_ = [value]
    seen: set[int] = set()
    while open_ and len(seen) < most:
        value = open_.pop()
        if type(value) in _PLAIN or isinstance(value, _LEAVES):
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
        if type(value) in _PLAIN or id(value) in seen:
            yield value
            continue
        seen.add(id(value))
        yield value
        if isinstance(value, FunctionType):
            open_ += [value.__closure__, value.__defaults__, value.__kwdefaults__]
        elif isinstance(value, np.ndarray) and value.dtype == object:
            open_.extend(value.flat)
        elif not isinstance(value, _LEAVES):
            open_ += gc.get_referents(value)


class _Counters:
    """Numbers of a class or a file that a program may count its calls with.

    A class may get a number of its own for one that it inherits: ``type(self).calls += 1``.
    """

    def __init__(self, owner: type | ModuleType, numbers: dict[str, Any]) -> None:
        self._owner = owner
        self._was = numbers
        self._names = frozenset(vars(owner)) if isinstance(owner, type) else None

    def restore(self) -> None:
        for name, number in self._was.items():
            now = vars(self._owner).get(name)
            if now is not number and type(now) in _NUMBERS:
                setattr(self._owner, name, number)
        if self._names is not None and len(vars(self._owner)) != len(self._names):
            for name, value in list(vars(self._owner).items()):
                if name not in self._names and type(value) in _NUMBERS:
                    delattr(self._owner, name)


def _numbers(names: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in names.items() if type(value) in _NUMBERS}


def _written_globals(functions: Iterable[Any], names: Set[str]) -> set[str]:
    """Those of the names that functions declare as `global` and write, and others that they use."""
    found: set[str] = set()
    for each in functions:
        if type(each) is FunctionType:
            used = each.__code__.co_names
            if not names.isdisjoint(used) and _WRITES in each.__code__.co_code[::2]:
                found.update(names & set(used))
    return found


class Snapshot:
    """The containers of a module's attributes, its classes included, with their contents.

    Numbers of the classes, and those of their files that functions there write, are kept too.

    Attributes:
        contents: (module, contents of a container) for all of them but those of hooks; first the
            attributes themselves.
    """

    def __init__(self, model: Any) -> None:
        self.contents: list[tuple[Any, Contents]] = []
        self._hooks: list[Contents] = []
        self._no_hooks: list[dict[int, Any]] = []
        self._counters: list[_Counters] = []
        self._seen: set[int] = set()
        self._owners: dict[int, Any] = {}  # by the dicts of their attributes
        self._caches: dict[int, tuple[Any, int]] = {}
        if not isinstance(model, torch.nn.Module):
            self._add_value(model, model)
            return
        for module in model.modules():
            self._add_module(module)
            for owner in type(module).__mro__:
                if _is_of_user(owner):
                    self._look_at(module, owner)

    def _add_module(self, module: torch.nn.Module) -> None:
        own = vars(module)
        self._seen.add(id(own))
        self.contents.append((module, Contents(own, module)))
        for key, value in own.items():
            if key in _HOOKS and isinstance(value, dict):
                if value:
                    self._hooks.append(Contents(value))
                else:
                    self._no_hooks.append(value)
            elif type(value) not in _PLAIN and key not in _HOOKS:
                self._add_value(module, value)

    def restore(self) -> None:
        """Gives all containers their old contents."""
        for contents in [*(each for _, each in self.contents), *self._hooks]:
            contents.restore()
        for hooks in filter(None, self._no_hooks):
            hooks.clear()
        self.restore_rest()

    def _look_at(self, module: Any, owner: type) -> None:
        """Adds what a class, and the file that defines it, hold."""
        if id(owner) in self._seen:
            return
        self._seen.add(id(owner))
        own = dict(vars(owner))
        self._counters.append(_Counters(owner, _numbers(own)))
        for value in own.values():
            if type(value) not in _INERT and not _is_bare(value):
                self._add_value(module, value)
        file = sys.modules.get(owner.__module__)
        if file is None:
            return
        names = dict(vars(file))
        numbers = _numbers(names)
        functions = list(own.values())
        if id(file) not in self._seen:
            self._seen.add(id(file))
            functions += names.values()
            for value in names.values():
                if type(value) is _LruCache:
                    self._add_value(module, value)
        written = _written_globals(functions, numbers.keys())
        if written:
            self._counters.append(_Counters(file, {name: numbers[name] for name in written}))

    def _add(self, module: Any, held: Any) -> None:
        open_ = [held]
        while open_:
            held = open_.pop()
            if id(held) in self._seen:
                continue
            self._seen.add(id(held))
            contents = Contents(held, self._owners.get(id(held)))
            self.contents.append((module, contents))
            open_ += [
                inner
                for value in contents.was.values()
                if type(value) not in _PLAIN
                for inner in self._inner(value)
            ]

    def _add_value(self, module: Any, value: Any) -> None:
        for inner in self._inner(value):
            self._add(module, inner)

    def _inner(self, value: Any) -> Iterator[Any]:
        """The containers that a value is or has."""
        if type(value) is FunctionType:
            if _is_of_user(value):
                yield from value.__closure__ or ()
                yield from (each for each in (value.__dict__, value.__kwdefaults__) if each)
                yield from self._inner(value.__defaults__ or ())
        elif isinstance(value, _LEAVES):
            return
        elif isinstance(value, (dict, *_SEQUENCES)) or type(value) is set:
            yield value
        elif isinstance(value, (tuple, frozenset)):
            for each in value:
                if type(each) not in _PLAIN:
                    yield from self._inner(each)
        elif isinstance(value, MethodType):
            yield from self._inner(value.__func__)
            yield from self._inner(value.__self__)
        elif isinstance(value, functools.partial):
            yield value.keywords
            yield from self._inner((value.func, *value.args))
        elif isinstance(value, np.ndarray):
            if value.dtype == object:
                yield value
        elif isinstance(value, _LruCache):
            self._caches.setdefault(id(value), (value, value.cache_info().misses))
        elif _is_of_user(type(value)) or isinstance(value, SimpleNamespace):
            attributes = getattr(value, "__dict__", None)
            if type(attributes) is dict:
                self._owners[id(attributes)] = value
                yield attributes
            if _slots(value):
                yield value

    def restore_rest(self) -> None:
        """Restores what is no container: numbers, and functools.lru_cache, which it empties."""
        for counters in self._counters:
            counters.restore()
        for cache, misses in self._caches.values():
            if cache.cache_info().misses != misses:
                cache.cache_clear()


def _is_bare(value: Any) -> bool:
    """Whether a value is a function that keeps nothing."""
    return type(value) is FunctionType and not (
        value.__closure__ or value.__defaults__ or value.__kwdefaults__ or value.__dict__
    )


def _is_of_user(kind: type | FunctionType) -> bool:
    return not f"{kind.__module__}.".startswith(_LIBRARIES)
