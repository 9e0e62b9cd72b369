"""Recognizes text that a program makes for the message of an assertion, and for nothing else."""

from __future__ import annotations

import ast
import functools
import linecache
from types import FrameType

from onnx_native import _upstream

# What the braces of a message may hold: nothing that could keep the text.
_PLAIN = (
    ast.JoinedStr,
    ast.FormattedValue,
    ast.Constant,
    ast.Name,
    ast.Attribute,
    ast.Subscript,
    ast.Tuple,
    ast.Slice,
    ast.BinOp,
    ast.UnaryOp,
    ast.operator,
    ast.unaryop,
    ast.expr_context,
)

Position = tuple[int, int]  # line and column


def is_of_assertion(frame: FrameType) -> bool:
    """Whether a frame evaluates the f-string of ``torch._assert(condition, f"...")``."""
    code = frame.f_code
    positions = list(code.co_positions())[frame.f_lasti // 2]
    line, end_line, column, end_column = positions
    if line is None or end_line is None or column is None or end_column is None:
        return False
    start, end = (line, column), (end_line, end_column)
    for name, first, last in _messages(code.co_filename):
        if first <= start and end <= last:
            return _is_assert(name, frame)
    return False


def _is_assert(name: str, frame: FrameType) -> bool:
    """Whether a global name of the frame's function is torch._assert."""
    module, _, function = name.rpartition(".")
    first = module or function
    if first in frame.f_locals or first not in frame.f_globals:
        return False
    found = frame.f_globals[first]
    return (getattr(found, function, None) if module else found) is _upstream.torch_assert


@functools.lru_cache
def _messages(file: str) -> list[tuple[str, Position, Position]]:
    """The called name and the extent of each message of an assertion in a file."""
    try:
        tree = ast.parse("".join(linecache.getlines(file)))
    except (SyntaxError, ValueError):
        return []
    function = _upstream.torch_assert.__name__
    names = (function, f"torch.{function}")
    found = []
    for call in ast.walk(tree):
        if not isinstance(call, ast.Call) or len(call.args) != 2 or call.keywords:
            continue
        name, message = ast.unparse(call.func), call.args[1]
        if name not in names or not isinstance(message, ast.JoinedStr):
            continue
        if not all(isinstance(node, _PLAIN) for node in ast.walk(message)):
            continue
        assert message.end_lineno is not None
        assert message.end_col_offset is not None
        first = (message.lineno, message.col_offset)
        found.append((name, first, (message.end_lineno, message.end_col_offset)))
    return found
