"""Attributes of modules that a recorded program writes before it reads them.

``self.features = layer(x)`` keeps a tensor for whoever asks later. The value of an earlier call
does not matter to the program if it writes the attribute first. To be sure of that, the program
runs again without the attributes.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from typing import Any

import torch

from onnx_native import _replaced, _undo

Attribute = tuple[torch.nn.Module, str]
Attributes = Collection[Attribute]


def may_be_written_first(module: torch.nn.Module, name: str) -> bool:
    """Whether a read of the missing attribute would be seen.

    It reaches the default that the class has, or ``torch.nn.Module.__getattr__``.
    """
    kind: Any = type(module)
    if hasattr(kind, name):
        return _has_default(kind, name)
    return kind.__getattr__ is torch.nn.Module.__getattr__


def _has_default(kind: type, name: str) -> bool:
    """Whether a class has a value, not a property or a method, for an attribute."""
    return hasattr(kind, name) and not hasattr(inspect.getattr_static(kind, name), "__get__")


def unset(attributes: Attributes) -> None:
    """Gives attributes the default of the class, or None."""
    for module, name in attributes:
        if _has_default(type(module), name):
            vars(module).pop(name, None)
        else:
            vars(module)[name] = None


class _Default:
    """The default that a class has for an attribute, which some instances must not read."""

    def __init__(self, value: Any, forbids: Callable[[Any], None]) -> None:
        self.value = value
        self.forbids = forbids

    def __get__(self, module: Any, kind: Any) -> Any:
        self.forbids(module)
        return self.value


@contextmanager
def missing(attributes: Attributes, refuse: Callable[[str], None]) -> Iterator[None]:
    """Takes attributes away, and refuses programs that read one before they write it.

    Restores them at the end.
    """
    if not attributes:
        yield
        return
    watched = {(id(module), name) for module, name in attributes}
    before = [
        (vars(module), name, name in vars(module), vars(module).get(name))
        for module, name in attributes
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

    defaults = {
        (kind, name): _Default(getattr(kind, name), functools.partial(check, name=name))
        for kind, name in {(type(module), name) for module, name in attributes}
        if hasattr(kind, name)
    }
    with (
        _undo.at_end(put_back, of_process=True),
        _replaced.attributes(
            [
                (torch.nn.Module, "__getattr__", lookup),
                *((kind, name, default) for (kind, name), default in defaults.items()),
            ]
        ),
    ):
        for held, name, *_ in before:
            held.pop(name, None)
        yield
