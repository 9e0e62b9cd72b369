"""The source text of a program, and what the names in it mean to a frame that runs it."""

from __future__ import annotations

import ast
import functools
import inspect
import linecache
import sys
from types import CodeType, FrameType
from typing import Any

# First line, last line, first column, end column.
Extent = tuple[int | None, int | None, int | None, int | None]


def tree(file: str) -> ast.Module:
    """The syntax tree of a file as it is now; the same object as long as the text is the same.

    It is empty if there is no source or it cannot be parsed.
    """
    linecache.checkcache(file)
    return _parsed("".join(linecache.getlines(file)))


@functools.lru_cache
def _parsed(text: str) -> ast.Module:
    try:
        return ast.parse(text)
    except (SyntaxError, ValueError):
        return ast.Module(body=[], type_ignores=[])


def extent(code: CodeType, instruction: int) -> Extent:
    """The place of an instruction in the source; unknown in Python 3.10, which has lines only."""
    if sys.version_info < (3, 11):
        return (None, None, None, None)
    return list(code.co_positions())[instruction // 2]


def dotted(called: ast.expr) -> tuple[str, ...]:
    """The names of ``a.b.c``; empty for other expressions."""
    names: list[str] = []
    while isinstance(called, ast.Attribute):
        names.insert(0, called.attr)
        called = called.value
    return (called.id, *names) if isinstance(called, ast.Name) else ()


def value(name: tuple[str, ...], frame: FrameType) -> Any:
    """The value of a dotted name. It runs no code of the program: no property, no __getattr__."""
    scopes = (frame.f_locals, frame.f_globals, frame.f_builtins)
    found = next((scope[name[0]] for scope in scopes if name[0] in scope), None)
    for attribute in name[1:]:
        found = inspect.getattr_static(found, attribute, None)
    return found
