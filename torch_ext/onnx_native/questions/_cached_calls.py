"""Recognizes calls of functions that functools.lru_cache wraps."""

from __future__ import annotations

import ast
import functools
from types import CodeType, FrameType

from onnx_native.questions import _sources


def is_made_by(frame: FrameType) -> bool:
    """Whether a frame is calling a function that functools.lru_cache wraps."""
    called = _called(frame.f_code, frame.f_lasti)
    found = _sources.value(called, frame) if called else None
    return isinstance(getattr(found, "__func__", found), type(_called))


@functools.lru_cache
def _called(code: CodeType, instruction: int) -> tuple[str, ...]:
    """The dotted name that an instruction of some code calls; empty if it calls something else."""
    extent = _sources.extent(code, instruction)
    return _calls(_sources.tree(code.co_filename)).get(extent, ())


@functools.lru_cache
def _calls(tree: ast.Module) -> dict[_sources.Extent, tuple[str, ...]]:
    """The dotted name of each call in a file."""
    found: dict[_sources.Extent, tuple[str, ...]] = {}
    for call in ast.walk(tree):
        if isinstance(call, ast.Call) and (name := _sources.dotted(call.func)):
            found[call.lineno, call.end_lineno, call.col_offset, call.end_col_offset] = name
    return found
