"""Recognizes calls of functions that functools.lru_cache wraps."""

from __future__ import annotations

import ast
import functools
import inspect
import linecache
from types import CodeType, FrameType
from typing import Any

# First line, last line, first column, end column.
Extent = tuple[int | None, int | None, int | None, int | None]


def is_made_by(frame: FrameType) -> bool:
    """Whether a frame is calling a function that functools.lru_cache wraps."""
    called = _called(frame.f_code, frame.f_lasti)
    found = _value(called, frame) if called else None
    return isinstance(getattr(found, "__func__", found), type(_called))


@functools.lru_cache
def _called(code: CodeType, instruction: int) -> tuple[str, ...]:
    """The dotted name that an instruction of some code calls; empty if it calls something else."""
    extent = list(code.co_positions())[instruction // 2]
    return _calls(code.co_filename).get(extent, ())


@functools.lru_cache
def _calls(file: str) -> dict[Extent, tuple[str, ...]]:
    """The dotted name of each call in a file."""
    try:
        tree = ast.parse("".join(linecache.getlines(file)))
    except (SyntaxError, ValueError):
        return {}
    found: dict[Extent, tuple[str, ...]] = {}
    for call in ast.walk(tree):
        if isinstance(call, ast.Call) and (name := _dotted(call.func)):
            found[call.lineno, call.end_lineno, call.col_offset, call.end_col_offset] = name
    return found


def _dotted(called: ast.expr) -> tuple[str, ...]:
    names: list[str] = []
    while isinstance(called, ast.Attribute):
        names.insert(0, called.attr)
        called = called.value
    return (called.id, *names) if isinstance(called, ast.Name) else ()


def _value(name: tuple[str, ...], frame: FrameType) -> Any:
    """The value of a dotted name. It runs no code of the program: no property, no __getattr__."""
    scopes = (frame.f_locals, frame.f_globals, frame.f_builtins)
    value = next((scope[name[0]] for scope in scopes if name[0] in scope), None)
    for attribute in name[1:]:
        value = inspect.getattr_static(value, attribute, None)
    return value
