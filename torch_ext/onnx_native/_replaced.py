"""Attributes of PyTorch's classes and modules that a capture replaces for a while."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

_NOTHING = object()


@contextmanager
def attributes(replacements: Sequence[tuple[Any, str, Any]]) -> Iterator[None]:
    """Sets attributes, given as (owner, name, value), and puts the old ones back at the end.

    An attribute that the owner inherits, or does not have, is deleted at the end.
    """
    old = [(owner, name, vars(owner).get(name, _NOTHING)) for owner, name, _ in replacements]
    try:
        for owner, name, value in replacements:
            setattr(owner, name, value)
        yield
    finally:
        for owner, name, value in old:
            if value is not _NOTHING:
                setattr(owner, name, value)
            elif name in vars(owner):
                delattr(owner, name)
