"""Containers of a module in which a program may keep tensors: dicts, lists, objects, caches."""

from __future__ import annotations

import collections
import functools
import sys
from collections.abc import Iterable, Iterator
from types import FunctionType, ModuleType, SimpleNamespace
from typing import Any

import torch

_PLAIN = frozenset((int, float, str, bool, type(None), torch.Tensor, torch.nn.Parameter))
_SEQUENCES = (list, collections.deque)
_LEAVES = (torch.Tensor, torch.nn.Module, type, FunctionType, ModuleType)
_LruCache = type(functools.lru_cache(lambda: None))
# Dicts of every module in which a program keeps no tensors.
_HOOKS = frozenset(vars(torch.nn.Module())) - {"_parameters", "_buffers", "_modules"}
# Their objects keep no tensors of a program.
_LIBRARIES = ("torch.", "builtins.", "numpy.", "threading.", "logging.")


class Contents:
    """A container, and what was in it: entries of a dict by key, of a list or deque by index."""

    def __init__(self, held: Any) -> None:
        self.held = held
        self.was = self.now()

    def now(self) -> dict[Any, Any]:
        held = self.held
        return dict(enumerate(held)) if isinstance(held, _SEQUENCES) else dict(held)

    def changes(self) -> list[tuple[Any, Any, Any]]:
        """Entries that are new, gone or others than before: (key, old, new)."""
        was, now = self.was, self.now()
        if len(was) == len(now) and all(now.get(key) is was[key] for key in was):
            return []
        found = [(key, was.get(key), now.get(key)) for key in {**was, **now}]
        return [change for change in found if change[1] is not change[2]]

    def put_back(self, keys: Iterable[Any]) -> None:
        """Gives entries their old values, or removes new ones; restores a sequence as a whole."""
        if isinstance(self.held, _SEQUENCES):
            self.restore()
            return
        for key in keys:
            if key in self.was:
                self.held[key] = self.was[key]
            else:
                self.held.pop(key, None)

    def restore(self) -> None:
        """Gives the container its old contents, in the old order."""
        if isinstance(self.held, list):
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
            open_ += value.values()
        elif isinstance(value, (tuple, set, frozenset, *_SEQUENCES)):
            open_ += value
        else:
            yield value
            open_ += getattr(value, "__dict__", {}).values()


class Snapshot:
    """The containers of a module's attributes, its classes included, with their contents.

    Attributes:
        contents: (module, contents of a container) for all of them; first the attributes
            themselves.
    """

    def __init__(self, model: torch.nn.Module) -> None:
        self.contents: list[tuple[torch.nn.Module, Contents]] = []
        self._seen: set[int] = set()
        self._caches: dict[int, tuple[Any, int]] = {}
        for module in model.modules():
            self._add_module(module)
            for owner in type(module).__mro__:
                if _is_of_user(owner):
                    self._look_at(module, owner)

    def _add_module(self, module: torch.nn.Module) -> None:
        own = vars(module)
        self._seen.add(id(own))
        self.contents.append((module, Contents(own)))
        for key, value in own.items():
            if type(value) not in _PLAIN and key not in _HOOKS:
                self._add_value(module, value)

    def _look_at(self, module: torch.nn.Module, owner: type) -> None:
        """Adds what a class, and the file that defines it, hold."""
        if id(owner) in self._seen:
            return
        self._seen.add(id(owner))
        for value in list(vars(owner).values()):
            self._add_value(module, value)
        file = sys.modules.get(owner.__module__)
        if file is not None and id(file) not in self._seen:
            self._seen.add(id(file))
            for value in list(vars(file).values()):
                if isinstance(value, _LruCache):
                    self._add_value(module, value)

    def _add(self, module: torch.nn.Module, held: Any) -> None:
        open_ = [held]
        while open_:
            held = open_.pop()
            if id(held) in self._seen:
                continue
            self._seen.add(id(held))
            contents = Contents(held)
            self.contents.append((module, contents))
            open_ += [
                inner
                for value in contents.was.values()
                if type(value) not in _PLAIN
                for inner in self._inner(value)
            ]

    def _add_value(self, module: torch.nn.Module, value: Any) -> None:
        for inner in self._inner(value):
            self._add(module, inner)

    def _inner(self, value: Any) -> Iterator[Any]:
        """The containers that a value is or has."""
        if isinstance(value, _LEAVES):
            return
        if isinstance(value, (dict, *_SEQUENCES)):
            yield value
        elif isinstance(value, _LruCache):
            self._caches.setdefault(id(value), (value, value.cache_info().misses))
        elif _is_of_user(type(value)) or isinstance(value, SimpleNamespace):
            attributes = getattr(value, "__dict__", None)
            if type(attributes) is dict:
                yield attributes

    def clear_caches(self) -> None:
        """Empties each functools.lru_cache that was filled since."""
        for cache, misses in self._caches.values():
            if cache.cache_info().misses != misses:
                cache.cache_clear()


def _is_of_user(kind: type) -> bool:
    return not f"{kind.__module__}.".startswith(_LIBRARIES)
