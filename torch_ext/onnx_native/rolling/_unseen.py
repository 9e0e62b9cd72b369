"""What a program may decide on numbers that no recording sees.

Recordings at a few lengths see each comparison with a size, and with numbers that ``range``,
``enumerate`` and ``len`` return. A counter of the program's own (``i += 1``) is a plain integer,
and a table of numbers (``gains[t]``) is read without a comparison: the program may do something
else at its hundredth step, which no recording has.
"""

from __future__ import annotations

import ast
import functools
import inspect
import linecache
import sys
from collections.abc import Iterable, Iterator
from typing import Any

import torch

_Function = (ast.FunctionDef, ast.AsyncFunctionDef)
_EVEN = (ast.Add, ast.Sub, ast.Mult)  # keep even growth, whose uses recordings see
_ITERATORS = {"enumerate", "range", "reversed", "zip"}
_READERS = {"abs", "bool", "divmod", "float", "max", "min", "pow", "round", "str"}


def found(lines: Iterable[tuple[str, int]], model: torch.nn.Module) -> str | None:
    """Returns where functions decide on such a number: "a counter of its own (model.py:42)"; None
    if nowhere.

    Args:
        lines: The files and line numbers that a recording ran.
        model: The program, whose attributes may be tables.
    """
    by_file: dict[str, set[int]] = {}
    for file, line in lines:
        by_file.setdefault(file, set()).add(line)
    for file, numbers in by_file.items():
        for function in _functions(file):
            end = function.end_lineno or function.lineno
            if not any(function.lineno <= number <= end for number in numbers):
                continue
            place = file.rpartition("/")[2]
            if (counted := _decision(function)) is not None:
                return f"a counter of its own ({place}:{counted})"
            if (read := _table(function, file, model)) is not None:
                return f"a table of numbers ({place}:{read})"
    return None


@functools.lru_cache(maxsize=64)
def _parsed(source: str) -> ast.Module | None:
    try:
        return ast.parse(source)
    except SyntaxError:
        return None


def _functions(file: str) -> Iterator[Any]:
    tree = _parsed("".join(linecache.getlines(file)))
    return (each for each in ast.walk(tree) if isinstance(each, _Function)) if tree else iter(())


def _decision(function: Any) -> int | None:
    """The line where a function may decide on one of its counters."""
    counters = set(filter(None, map(_counter, ast.walk(function))))
    if not counters:
        return None
    parents = {child: node for node in ast.walk(function) for child in ast.iter_child_nodes(node)}
    for node in ast.walk(function):
        if not isinstance(node, (ast.Name, ast.Attribute)) or not isinstance(node.ctx, ast.Load):
            continue
        if ast.unparse(node) in counters and _decides(node, parents):
            return int(node.lineno)
    return None


def _table(function: Any, file: str, model: torch.nn.Module) -> int | None:
    """The line where a function reads a list of numbers at a place that is no constant."""
    nodes = list(ast.walk(function))
    own = {
        ast.unparse(target)
        for node in nodes
        if isinstance(node, ast.Assign) and any(map(_is_display, ast.walk(node.value)))
        for each in node.targets
        for target in (each.elts if isinstance(each, ast.Tuple) else [each])
    }
    fixed = _fixed(nodes)
    for node in nodes:
        if not isinstance(node, ast.Subscript) or not isinstance(node.ctx, ast.Load):
            continue
        if isinstance(node.slice, (ast.Constant, ast.Slice, ast.Tuple, ast.UnaryOp)):
            continue
        if isinstance(node.slice, ast.Name) and node.slice.id in fixed:
            continue
        if ast.unparse(node.value) in own or _is_display(node.value):
            return int(node.lineno)
        if any(map(_has_numbers, _values(node.value, file, model))):
            return int(node.lineno)
    return None


def _fixed(nodes: list[Any]) -> set[str]:
    """Variables of loops over constants alone, which have the same values in each recording."""

    def names(node: ast.AST) -> set[str]:
        return {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}

    literals = (ast.Name, ast.Constant, ast.Tuple, ast.List, ast.Call, ast.keyword, ast.Load)
    bound = [
        name
        for node in nodes
        if isinstance(node, ast.For)
        and names(node.iter) <= _ITERATORS
        and all(isinstance(each, literals) for each in ast.walk(node.iter))
        for name in names(node.target)
    ]
    stored = [
        node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    ]
    return {name for name in bound if stored.count(name) == bound.count(name)}


def _is_display(node: Any) -> bool:
    """Whether an expression is a list with numbers in it: ``[1.0, 0.5]``."""
    return isinstance(node, (ast.List, ast.Tuple)) and any(
        isinstance(each, ast.Constant) and isinstance(each.value, (int, float))
        for each in node.elts
    )


def _values(node: Any, file: str, model: torch.nn.Module) -> Iterator[Any]:
    """What a name or an attribute may stand for: a global of the file, an attribute of a module."""
    if isinstance(node, ast.Name):
        for module in list(sys.modules.values()):
            if getattr(module, "__file__", None) == file:
                yield vars(module).get(node.id)
    elif isinstance(node, ast.Attribute):
        for part in model.modules():
            yield inspect.getattr_static(part, node.attr, None)


def _has_numbers(value: Any) -> bool:
    return isinstance(value, (list, tuple)) and any(
        isinstance(each, (int, float)) for each in value
    )


def _counter(node: ast.AST) -> str | None:
    """The variable that a statement counts with: ``i += 1``, ``i = i + 1``."""
    target: ast.expr
    if isinstance(node, ast.AugAssign) and isinstance(node.op, (ast.Add, ast.Sub)):
        target, step = node.target, node.value
    elif (
        isinstance(node, ast.Assign)
        and isinstance(node.value, ast.BinOp)
        and isinstance(node.value.op, (ast.Add, ast.Sub))
        and ast.unparse(node.value.left) == ast.unparse(node.targets[0])
    ):
        target, step = node.targets[0], node.value.right
    else:
        return None
    is_number = isinstance(step, ast.Constant) and isinstance(step.value, int)
    return ast.unparse(target) if is_number else None


def _decides(node: Any, parents: dict[Any, Any]) -> bool:
    """Whether a use of a counter may be a decision, or makes a number that grows unevenly."""
    while True:
        parent = parents.get(node)
        if isinstance(parent, ast.BinOp):
            if not isinstance(parent.op, _EVEN):
                return True
        elif isinstance(parent, (ast.BoolOp, ast.UnaryOp, ast.Starred)):
            pass
        elif isinstance(parent, ast.Compare):
            loop = parents.get(parent)
            is_test = isinstance(loop, ast.While) and loop.test is parent
            # The recordings see a comparison with a size.
            return not (is_test and len(parent.ops) == 1)
        elif isinstance(parent, ast.Call):
            return isinstance(parent.func, ast.Name) and parent.func.id in _READERS
        else:
            conditional = (ast.If, ast.IfExp, ast.While, ast.Assert)
            return isinstance(parent, conditional) and parent.test is node
        node = parent
