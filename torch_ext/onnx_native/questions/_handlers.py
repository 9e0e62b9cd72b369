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
from collections import defaultdict
from collections.abc import Iterable, Iterator
from types import FrameType

from onnx_native import _library
from onnx_native.questions import _sources

# The start of a statement that may catch.
_GUARD = re.compile(r"^([ \t]*)(?:try:|with (?:.*suppress|\($))", re.MULTILINE)
# What a call of PyTorch raises because of the elements of its arguments.
_OF_ELEMENTS = (RuntimeError, ValueError, ArithmeticError, IndexError)


def may_catch(frame: FrameType | None, error: type[BaseException]) -> bool:
    """Whether the program may catch an exception that a frame raises.

    Args:
        frame: The frame; its callers are looked at too, up to this package.
        error: The type of the exception.
    """
    while frame is not None and not frame.f_code.co_filename.startswith(_library.NOT_OF_USER[1]):
        for statement in _around(frame.f_code.co_filename, {frame.f_lineno}):
            if _catches(statement, (error,)):
                return True
        frame = frame.f_back
    return False


def warnings(lines: Iterable[tuple[str, int]]) -> list[str]:
    """What to say of calls that may fail for other elements than the example's.

    Args:
        lines: The files and the line numbers of the calls.
    """
    by_file = defaultdict(set)
    for file, line in lines:
        by_file[file].add(line)
    places = {
        (os.path.basename(file), statement.lineno)
        for file, numbers in by_file.items()
        for statement in _around(file, numbers)
        if _catches(statement, _OF_ELEMENTS)
    }
    return [
        f"the program catches exceptions ({file}:{line}), and the model does not: for elements "
        "that make a call there fail, it computes something else than the program"
        for file, line in sorted(places)
    ]


def _around(file: str, numbers: set[int]) -> Iterator[ast.Try | ast.With]:
    """The statements around lines of a file that may catch what is raised there."""
    if file.startswith(_library.NOT_OF_USER[0]):
        return
    # To parse a file takes longer.
    blocks = _blocks(file)
    if not any(number in block for block in blocks for number in numbers):
        return
    for lines, statement in _guarded(_sources.tree(file)):
        if any(number in lines for number in numbers):
            yield statement


# By file, with the lines that they are of: linecache returns the same list as long as it is new.
_known_blocks: dict[str, tuple[list[str], list[range]]] = {}


def _blocks(file: str) -> list[range]:
    """The lines that are indented below the start of a statement that may catch."""
    lines = linecache.getlines(file)
    known = _known_blocks.get(file)
    if known is not None and known[0] is lines:
        return known[1]
    text = "".join(lines)
    found = []
    for start in _GUARD.finditer(text):
        outside = re.compile(rf"^[ \t]{{0,{len(start[1])}}}\S", re.MULTILINE)
        end = outside.search(text, start.end())
        first = text.count("\n", 0, start.end()) + 2
        found.append(range(first, text.count("\n", 0, end.start() if end else len(text)) + 1))
    _known_blocks[file] = lines, found
    return found


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
