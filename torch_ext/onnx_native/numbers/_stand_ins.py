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
    pairs: Iterable[tuple[Any, Callable[..., Any]]],
    of_user: Iterable[dict[str, Any]],
    of_model: Iterable[dict[Any, Any] | list[Any]],
    classes: Iterable[type],
    functions: Iterable[FunctionType],
) -> Iterator[None]:
    """Replaces functions, given as (plain, new), where a program imported or keeps them.

    They may be called there, or compared: ``self.root is math.sqrt``, ``def f(n, kind=int)``.

    Args:
        pairs: The functions.
        of_user: Globals, which may have them by their own names.
        of_model: Globals of the model's files, attributes of modules, and containers there, which
            may have them by any names.
        classes: Classes, likewise.
        functions: Functions whose parameters may have them as defaults.
    """
    by_plain = {id(plain): (plain, new) for plain, new in pairs}
    own_names = {plain.__name__ for plain, _ in by_plain.values()}
    functions = list(functions)
    keywords = [each.__kwdefaults__ for each in functions if each.__kwdefaults__]
    found: list[tuple[Any, Any, Any, Any]] = []
    for names in of_user:  # there are thousands, and few have any
        for name in own_names & names.keys():
            if id(names.get(name)) in by_plain:
                found.append((names, name, *by_plain[id(names.get(name))]))
    for place in (*of_model, *keywords):
        if _has(place if isinstance(place, list) else place.values(), by_plain):
            for name, value in list(_entries(place).items()):
                if id(value) in by_plain:
                    found.append((place, name, *by_plain[id(value)]))
    of_classes = [
        (kind, name, *by_plain[id(value)])
        for kind in classes
        if _has(vars(kind).values(), by_plain)
        for name, value in list(vars(kind).items())
        if id(value) in by_plain
    ]
    defaults = [
        (function, function.__defaults__)
        for function in functions
        if function.__defaults__ and _has(function.__defaults__, by_plain)
    ]

    def put_back() -> None:
        for place, name, plain, new in found:
            if _entries(place).get(name) is new:
                place[name] = plain
        for kind, name, plain, new in of_classes:
            if vars(kind).get(name) is new:
                setattr(kind, name, plain)
        for function, values in defaults:
            function.__defaults__ = values

    with _undo.at_end(put_back, of_process=True):
        for place, name, _, new in found:
            place[name] = new
        for kind, name, _, new in of_classes:
            setattr(kind, name, new)
        for function, values in defaults:
            function.__defaults__ = tuple(
                by_plain[id(value)][1] if id(value) in by_plain else value for value in values
            )
        yield


def _entries(place: dict[Any, Any] | list[Any]) -> dict[Any, Any]:
    return place if isinstance(place, dict) else dict(enumerate(place))


def _has(values: Iterable[Any], by_plain: dict[int, Any]) -> bool:
    return not by_plain.keys().isdisjoint(map(id, values))
