"""Functions that stand for others while a program is recorded, and the places where it finds them.

A program calls them by names of its files, and may keep, compare or look them up.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from types import FunctionType
from typing import Any

from onnx_native import _undo


class StandIn:
    """A function in place of another one, which it equals: as a key of a table too."""

    def __init__(self, plain: Any, function: Callable[..., Any]) -> None:
        functools.update_wrapper(self, plain)
        self._plain = plain
        self._function = function

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._function(*args, **kwargs)

    def __eq__(self, other: object) -> bool:
        return other is self or bool(other == self._plain)

    def __hash__(self) -> int:
        return hash(self._plain)

    def __reduce__(self) -> str:
        return str(self._plain.__name__)  # copies are the same object, as those of functions


@contextmanager
def in_globals(namespaces: Iterable[dict[str, Any]], functions: dict[str, Any]) -> Iterator[None]:
    """Adds functions to the globals of modules that do not define them. A model may have hundreds
    of modules."""
    changed: list[tuple[dict[str, Any], dict[str, Any]]] = []

    def put_back() -> None:
        for names, new in changed:
            for name in new:
                names.pop(name, None)

    with _undo.at_end(put_back, of_process=True):
        for names in namespaces:
            new = functions
            if not names.keys().isdisjoint(functions):
                new = {name: value for name, value in functions.items() if name not in names}
            changed.append((names, new))
            names.update(new)
        yield


@contextmanager
def held(
    of_user: Iterable[dict[str, Any]],
    holders: Iterable[dict[str, Any]],
    methods: Iterable[FunctionType],
    pairs: Iterable[tuple[Any, Callable[..., Any]]],
) -> Iterator[None]:
    """Replaces functions, given as (plain, new), where a program imported or keeps them.

    They may be called there, or compared: ``self.root is math.sqrt``, ``def f(n, kind=int)``.

    Args:
        of_user: Globals, which may have them by their own names.
        holders: Globals of the model's own files, attributes of modules, and defaults by the names
            of parameters, which may have them by any names.
        methods: Functions with other defaults.
        pairs: The functions.
    """
    by_plain = {id(plain): (plain, new) for plain, new in pairs}
    own_names = {plain.__name__ for plain, _ in by_plain.values()}
    places = [
        *((names, own_names & names.keys()) for names in of_user),
        *(
            (names, list(names))
            for names in holders
            if not by_plain.keys().isdisjoint(map(id, names.values()))
        ),
    ]
    found = [
        (names, name, *by_plain[id(names.get(name))])
        for names, candidates in places
        for name in candidates
        if id(names.get(name)) in by_plain
    ]
    defaults = [
        (method, method.__defaults__)
        for method in methods
        if method.__defaults__ and not by_plain.keys().isdisjoint(map(id, method.__defaults__))
    ]

    def put_back() -> None:
        for names, name, plain, new in found:
            if names.get(name) is new:
                names[name] = plain
        for method, values in defaults:
            method.__defaults__ = values

    with _undo.at_end(put_back, of_process=True):
        for names, name, _, new in found:
            names[name] = new
        for method, values in defaults:
            method.__defaults__ = tuple(
                by_plain[id(value)][1] if id(value) in by_plain else value for value in values or ()
            )
        yield
