"""Finds out whether a program may catch an exception.

The model has no exceptions. A program that catches one goes another way than the model.
"""

from __future__ import annotations

import ast
import builtins
import functools
import linecache
import os
import re
import sys
from collections.abc import Iterable, Iterator
from types import FrameType

from onnx_native import _library
from onnx_native.questions import _sources

# The start of a statement that may catch.
_GUARD = re.compile(r"try:|with (.*suppress|\($)")
# What a call of PyTorch raises because of the elements of its arguments.
_OF_ELEMENTS = (RuntimeError, ValueError, ArithmeticError, IndexError)


def may_catch(frame: FrameType | None, error: type[BaseException]) -> bool:
    """Whether the program may catch an exception that a frame raises.

    Args:
        frame: The frame; its callers are looked at too, up to this package.
        error: The type of the exception.
    """
    while frame is not None and not frame.f_code.co_filename.startswith(_library.NOT_OF_USER[1]):
        for statement in _around(frame.f_code.co_filename, frame.f_lineno):
            if _catches(statement, (error,)):
                return True
        frame = frame.f_back
    return False


def warnings(lines: Iterable[tuple[str, int]]) -> list[str]:
    """What to say of calls that may fail for other elements than the example's.

    Args:
        lines: The files and the line numbers of the calls.
    """
    places = {
        (os.path.basename(file), statement.lineno)
        for file, line in lines
        for statement in _around(file, line)
        if _catches(statement, _OF_ELEMENTS)
    }
    return [
        f"the program catches exceptions ({file}:{line}), and the model does not: for elements "
        "that make a call there fail, it computes something else than the program"
        for file, line in sorted(places)
    ]


def _around(file: str, line: int) -> Iterator[ast.Try | ast.With]:
    """The statements around a line that may catch what is raised in it."""
    if file.startswith(_library.NOT_OF_USER[0]) or not _may_be_guarded(file, line):
        return
    for lines, statement in _guarded(_sources.tree(file)):
        if line in lines:
            yield statement


def _may_be_guarded(file: str, line: int) -> bool:
    """Whether a line is indented below what may catch. To parse the file takes longer."""
    inner = sys.maxsize
    for text in reversed(linecache.getlines(file)[:line]):
        code = text.lstrip()
        indent = len(text) - len(code)
        if not code or indent >= inner:
            continue
        if inner < sys.maxsize and _GUARD.match(code):
            return True
        if code.startswith("def "):
            return False
        inner = indent
    return False


@functools.lru_cache(maxsize=64)
def _guarded(tree: ast.Module) -> list[tuple[range, ast.Try | ast.With]]:
    """The statements that may catch, with the lines whose exceptions they see."""
    return [
        (range(node.body[0].lineno, (node.body[-1].end_lineno or node.body[-1].lineno) + 1), node)
        for node in ast.walk(tree)
        if isinstance(node, ast.Try | ast.With)
    ]


def _catches(statement: ast.Try | ast.With, errors: tuple[type[BaseException], ...]) -> bool:
    if isinstance(statement, ast.With):
        calls = (item.context_expr for item in statement.items)
        return any(
            isinstance(call, ast.Call)
            and _sources.dotted(call.func)[-1:] == ("suppress",)
            and any(_is_for(kind, errors) for kind in call.args)
            for call in calls
        )
    leaves = (ast.Return, ast.Break, ast.Continue)
    if any(isinstance(last, leaves) for last in statement.finalbody):
        return True
    return any(
        (handler.type is None or _is_for(handler.type, errors))
        and not isinstance(handler.body[-1], ast.Raise)
        for handler in statement.handlers
    )


def _is_for(kind: ast.expr, errors: tuple[type[BaseException], ...]) -> bool:
    """Whether a handler for this class, or tuple of classes, may catch one of the errors."""
    if isinstance(kind, ast.Tuple):
        return any(_is_for(each, errors) for each in kind.elts)
    known = getattr(builtins, ast.unparse(kind), None)
    if not isinstance(known, type):
        return True
    return any(issubclass(error, known) or issubclass(known, error) for error in errors)
