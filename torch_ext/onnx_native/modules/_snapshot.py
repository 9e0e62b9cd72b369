"""What a program may change besides its results: containers, attributes, globals."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import (
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

from onnx_native.modules import _containers, _reached, _states
from onnx_native.upstream import _upstream

_VALUES = frozenset((int, float, complex, bool, str, bytes, type(None)))
# What classes have besides functions.
_INERT = _containers.PLAIN | {property, GetSetDescriptorType, MappingProxyType}
# Dicts of every module in which a program keeps no tensors.
_HOOKS = frozenset(vars(torch.nn.Module())) - {"_parameters", "_buffers", "_modules"}
_Found = list[tuple[Any, _containers.Contents]]
_LruCache = type(functools.lru_cache(lambda: None))
# What is looked at of a program's globals; a larger one is data, not a counter.
_MOST_CONTAINERS = 2000
_MOST_ENTRIES = 1000
# What a program adds elsewhere stays if it holds these: it is a cache.
_KEPT = (torch.Tensor, torch.nn.Module, torch.SymInt, torch.SymFloat, torch.SymBool)
# What files that a program imports add to tables: they are not imported again.
_REGISTERED = (type, FunctionType, ModuleType)


class Snapshot:
    """What a program may change, as it was: in its module, and where its functions reach.

    That is the containers of the module's attributes, its classes included, with their contents;
    objects with a state in them; and numbers, text and containers without tensors that are globals
    of the program's files, or attributes of classes there.

    Attributes:
        contents: (module, contents of a container) for all of the module's but those of hooks;
            first the attributes themselves.
        warnings: What a model keeps of runs that were undone.
    """

    def __init__(self, model: Any) -> None:
        self.contents: _Found = []
        self.warnings: list[str] = []
        self._elsewhere: _Found = []
        self._hooks: list[_containers.Contents] = []
        self._no_hooks: list[dict[int, Any]] = []
        self._values: list[_Values] = []
        self._states: list[_states.State] = []
        self._seen: set[int] = set()
        self._owners: dict[int, Any] = {}  # by the dicts of their attributes
        self._caches: dict[int, tuple[Any, int]] = {}
        self._classes: set[type] = set()
        self._called: list[Any] = []  # besides the modules
        self._imported = len(sys.modules)
        modules = list(model.modules()) if isinstance(model, torch.nn.Module) else []
        for module in modules:
            self._add_module(module)
        if not modules:
            self._add_value(self.contents, model, model)
            self._called.append(model)
        for module in modules:
            for owner in type(module).__mro__:
                if _containers.is_of_user(owner):
                    self._add_class(self.contents, module, owner)
        self._add_reached(model)

    def restore(self) -> None:
        """Gives all containers their old contents."""
        for contents in [*(each for _, each in self.contents), *self._hooks]:
            contents.restore()
        for hooks in filter(None, self._no_hooks):
            hooks.clear()
        self.restore_rest()

    def restore_rest(self) -> None:
        """Restores all but the containers of the module, and empties functools.lru_cache."""
        for values in self._values:
            values.restore()
        registered = _REGISTERED if len(sys.modules) > self._imported else ()
        for _, contents in self._elsewhere:
            if contents.is_unchanged():
                continue
            changes = contents.changes()
            keeps = {
                key
                for key, old, new in changes
                if (old is None and isinstance(new, registered))
                or (
                    _containers.holds(new, *_KEPT)
                    and not _containers.holds(old, *_KEPT)
                    and not any(map(_upstream.is_fake, _containers.leaves(new)))
                )
            }
            if not keeps:
                contents.restore()
            elif len(keeps) < len(changes):
                contents.put_back(key for key, *_ in changes if key not in keeps)
        for cache, misses in self._caches.values():
            if cache.cache_info().misses != misses:
                cache.cache_clear()
        found = [state.restore() for state in self._states]
        self.warnings += [each for each in found if each and each not in self.warnings]

    def _add_module(self, module: torch.nn.Module) -> None:
        own = vars(module)
        self._seen.add(id(own))
        self._classes.add(type(module))
        self.contents.append((module, _containers.Contents(own, module)))
        for key, value in own.items():
            if key in _HOOKS and isinstance(value, dict):
                if value:
                    self._hooks.append(_containers.Contents(value))
                    self._called += filter(callable, value.values())
                else:
                    self._no_hooks.append(value)
            elif type(value) not in _containers.PLAIN and key not in _HOOKS:
                self._add_value(self.contents, module, value)

    def _add_reached(self, model: Any) -> None:
        """Adds what the functions of the program reach outside of the module."""
        reached = _reached.reached(self._classes, self._called)
        for namespace, name in reached.globals():
            value = namespace.get(name)
            if type(value) not in _INERT and not _is_bare(value):
                self._add_value(self._elsewhere, model, value)
        self._values += [_Values(*each) for each in reached.written()]
        for function in reached.functions.values():
            if not _is_bare(function):
                self._add_value(self._elsewhere, model, function)
        for owner in reached.classes.values():
            self._add_class(self._elsewhere, model, owner)

    def _add_class(self, found: _Found, module: Any, owner: type) -> None:
        """Adds what a class holds."""
        if id(owner) in self._seen:
            return
        self._seen.add(id(owner))
        own = dict(vars(owner))
        self._values.append(_Values(owner, own, _reached.is_of_user(owner.__module__)))
        for value in own.values():
            if type(value) not in _INERT and not _is_bare(value):
                self._add_value(found, module, value)

    def _add(self, found: _Found, module: Any, held: Any) -> None:
        open_ = [held]
        while open_:
            held = open_.pop()
            if id(held) in self._seen or (found is self._elsewhere and self._is_data(held)):
                continue
            self._seen.add(id(held))
            contents = _containers.Contents(held, self._owners.get(id(held)))
            found.append((module, contents))
            open_ += [
                inner
                for value in contents.was.values()
                if type(value) not in _containers.PLAIN
                for inner in self._inner(module, value)
            ]

    def _is_data(self, held: Any) -> bool:
        is_sized = isinstance(held, (*_containers.CONTAINERS, set, np.ndarray))
        return len(self._elsewhere) >= _MOST_CONTAINERS or (is_sized and len(held) > _MOST_ENTRIES)

    def _add_value(self, found: _Found, module: Any, value: Any) -> None:
        for inner in self._inner(module, value):
            self._add(found, module, inner)

    def _inner(self, module: Any, value: Any) -> Iterator[Any]:
        """The containers that a value is or has."""
        if type(value) is FunctionType:
            if _containers.is_of_user(value):
                yield from value.__closure__ or ()
                yield from (each for each in (value.__dict__, value.__kwdefaults__) if each)
                yield from self._inner(module, value.__defaults__ or ())
        elif isinstance(value, _containers.LEAVES):
            return
        elif isinstance(value, _containers.CONTAINERS) or type(value) is set:
            yield value
        elif isinstance(value, (tuple, frozenset)):
            for each in value:
                if type(each) not in _containers.PLAIN:
                    yield from self._inner(module, each)
        elif isinstance(value, MethodType):
            yield from self._inner(module, value.__func__)
            yield from self._inner(module, value.__self__)
        elif isinstance(value, functools.partial):
            yield value.keywords
            yield from self._inner(module, (value.func, *value.args))
        elif isinstance(value, np.ndarray) and value.dtype == object:
            yield value
        elif isinstance(value, _LruCache):
            self._caches.setdefault(id(value), (value, value.cache_info().misses))
        elif _states.has_state(value):
            if id(value) not in self._seen:
                self._seen.add(id(value))
                self._states.append(_states.State(value, type(module).__name__))
        elif _containers.is_of_user(type(value)) or isinstance(value, SimpleNamespace):
            self._classes.add(type(value))
            attributes = getattr(value, "__dict__", None)
            if type(attributes) is dict:
                self._owners[id(attributes)] = value
                yield attributes
            if _containers.slots(value):
                yield value


class _Values:
    """What a class or a namespace has by name: numbers, text and None, or values of any kind.

    A class may get a value of its own for one that it inherits: ``type(self).calls += 1``.
    """

    def __init__(
        self, owner: type | dict[str, Any], names: Iterable[str], is_of_user: bool = False
    ) -> None:
        """Remembers the values of these names, of any kind if `is_of_user`."""
        self._own: Mapping[str, Any] = vars(owner) if isinstance(owner, type) else owner
        self._names = None if isinstance(owner, type) else frozenset(names)  # that may be new
        self._set: Callable[[str, Any], None]
        self._delete: Callable[[str], None]
        if isinstance(owner, type):
            self._set = functools.partial(setattr, owner)
            self._delete = functools.partial(delattr, owner)
        else:
            self._set, self._delete = owner.__setitem__, owner.__delitem__
        self._takes = (lambda _: True) if is_of_user else _is_value
        own = self._own
        self._was = {name: own[name] for name in names if name in own and self._takes(own[name])}
        self._before = frozenset(own)

    def restore(self) -> None:
        own = self._own
        for name, value in self._was.items():
            if own.get(name, self) is not value and self._takes(own.get(name)):
                self._set(name, value)
        if len(own) == len(self._before):
            return
        for name in own.keys() - self._before:
            if self._takes(own[name]) and (self._names is None or name in self._names):
                self._delete(name)


def _is_value(value: Any) -> bool:
    return type(value) in _VALUES or (type(value) is tuple and all(map(_is_value, value)))


def _is_bare(value: Any) -> bool:
    """Whether a value is a function that keeps nothing."""
    return type(value) is FunctionType and not (
        value.__closure__ or value.__defaults__ or value.__kwdefaults__ or value.__dict__
    )
