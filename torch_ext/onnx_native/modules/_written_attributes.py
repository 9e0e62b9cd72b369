"""Attributes that a recorded program writes before it reads them.

``self.features = layer(x)`` keeps a tensor for whoever asks later, in a module or in an object that
a module has. The value of an earlier call does not matter to the program if it writes the attribute
first. To be sure of that, the program runs again without the attributes.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from typing import Any

import torch

from onnx_native import _replaced, _undo

Attribute = tuple[object, str]  # its owner, which is a module or another object, and its name
Attributes = Collection[Attribute]


def may_be_written_first(owner: object, name: str) -> bool:
    """Whether a read of the missing attribute would be seen.

    It reaches what the class has, or ``torch.nn.Module.__getattr__``.
    """
    kind: Any = type(owner)
    if hasattr(kind, name):
        return _has_default(kind, name)
    if isinstance(owner, torch.nn.Module):
        return kind.__getattr__ is torch.nn.Module.__getattr__
    return not hasattr(kind, "__getattr__") and kind.__getattribute__ is object.__getattribute__


def _has_default(kind: type, name: str) -> bool:
    """Whether a class has a value, not a property or a method, for an attribute."""
    return hasattr(kind, name) and not hasattr(inspect.getattr_static(kind, name), "__get__")


def unset(attributes: Attributes) -> Callable[[], None]:
    """Returns a function that takes away what attributes hold.

    It gives them the default of the class, or None; those that are missing now are missing again.
    """
    attributes = list(attributes)
    to_remove = [
        name not in vars(owner) or _has_default(type(owner), name) for owner, name in attributes
    ]

    def unset() -> None:
        for (owner, name), is_removed in zip(attributes, to_remove, strict=True):
            if is_removed:
                vars(owner).pop(name, None)
            else:
                vars(owner)[name] = None

    return unset


class _Default:
    """What a class has for an attribute, if anything, which some instances must not read."""

    def __init__(self, kind: type, name: str, forbids: Callable[[Any, str], None]) -> None:
        self.kind, self.name, self.forbids = kind, name, forbids
        self.exists = hasattr(kind, name)
        self.value = getattr(kind, name, None)

    def __get__(self, owner: Any, kind: Any) -> Any:
        self.forbids(owner, self.name)
        if not self.exists:
            raise AttributeError(f"{kind.__name__!r} object has no attribute {self.name!r}")
        return self.value


@contextmanager
def missing(attributes: Attributes, refuse: Callable[[str], None]) -> Iterator[None]:
    """Takes attributes away, and refuses programs that read one before they write it.

    Restores them at the end.
    """
    if not attributes:
        yield
        return
    watched = {(id(owner), name) for owner, name in attributes}
    before = [
        (vars(owner), name, name in vars(owner), vars(owner).get(name))
        for owner, name in attributes
    ]

    def put_back() -> None:
        for held, name, existed, value in before:
            held.pop(name, None)
            if existed:
                held[name] = value

    plain: Any = torch.nn.Module.__getattr__

    def check(self: Any, name: str) -> None:
        if (id(self), name) in watched:
            refuse(f"the program reads {name} of a {type(self).__name__}, which it replaces")

    def lookup(self: torch.nn.Module, name: str) -> Any:
        check(self, name)
        return plain(self, name)

    defaults = [
        (kind, name, _Default(kind, name, check))
        for kind, name in {(type(owner), name) for owner, name in attributes}
        if hasattr(kind, name) or not issubclass(kind, torch.nn.Module)
    ]
    with (
        _undo.at_end(put_back, of_process=True),
        _replaced.attributes([(torch.nn.Module, "__getattr__", lookup), *defaults]),
    ):
        for held, name, *_ in before:
            held.pop(name, None)
        yield
