"""Recognizes text that a program shows, in a message or an exception, and does not use."""

from __future__ import annotations

import ast
import builtins
import dataclasses
import functools
import inspect
import logging
import warnings
from collections.abc import Iterable
from types import CodeType, FrameType, FunctionType, ModuleType
from typing import Any

import torch

from onnx_native import _libraries
from onnx_native.questions import _sources
from onnx_native.upstream import _upstream

# What an expression that makes text may hold: nothing that could keep the text. It may also call
# these builtins, and methods without arguments.
_BUILTINS = ("float", "int", "len", "list", "str", "tuple", "type")
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
# Functions that show all their arguments. Those of `logging` are methods of a logger as well.
_SHOWING: tuple[Any, ...] = (print, warnings.warn)
_LEVELS = "debug info info_once warning warning_once warn error critical log".split()

Position = tuple[int, int]  # line and column
Argument = int | str | None


@dataclasses.dataclass(frozen=True)
class _Text:
    """An expression that makes text and passes it to a call.

    Attributes:
        function: The dotted name of what is called; empty if the text is in a ``raise``.
        argument: The position or the keyword of the argument; None for the call itself, whose
            function makes the text.
        builtins: The builtins that the expression calls.
        first: Where the expression begins.
        last: Where it ends.
    """

    function: tuple[str, ...]
    argument: Argument
    builtins: tuple[str, ...]
    first: Position
    last: Position


def is_only_shown(frame: FrameType) -> bool:
    """Whether a frame makes text that goes to a message, a log or an exception, and no further.

    Such text is in the arguments of torch._assert, print, warnings.warn and loggers, in a
    ``raise``, or in an argument that a function of the program uses to raise exceptions only.
    """
    if frame.f_globals is vars(logging):  # logger.debug("%s", size)
        return True
    # PyTorch says of each overload of torch.ops.aten.fill why the arguments do not fit it.
    if frame.f_globals.get("__name__") == type(torch.ops).__module__:
        return True
    return any(_is_shown(text, frame) for text in _texts_at(frame.f_code, frame.f_lasti))


def _is_shown(text: _Text, frame: FrameType) -> bool:
    if not all(_is_builtin(_sources.value((name,), frame), name) for name in text.builtins):
        return False
    if not text.function:
        return True
    owner = _sources.value(text.function[:-1], frame) if len(text.function) > 1 else None
    called = _sources.value(text.function, frame)
    if any(called is each for each in _SHOWING) or _is_of_logging(text.function[-1], called, owner):
        return True
    if text.argument is None:
        return False
    is_bound = inspect.ismethod(called) or isinstance(called, classmethod)
    is_method = owner is not None and not isinstance(owner, ModuleType | type)
    function = getattr(called, "__func__", called)
    if not isinstance(function, FunctionType):
        return False
    if called is _upstream.torch_assert or _libraries.is_check(function):
        return text.argument in (1, "message", "msg")
    takes_self = is_bound or (is_method and not isinstance(called, staticmethod))
    parameter = _parameter(function, text.argument, takes_self)
    return parameter is not None and _is_raised_only(function.__code__, parameter)


def _is_builtin(value: Any, name: str) -> bool:
    """Whether a value is the builtin of this name, or replaces it during a recording."""
    modules = [getattr(each, "__module__", None) or "" for each in (value, type(value))]
    ours = any(module.startswith("onnx_native.") for module in modules)
    return ours or value is vars(builtins)[name]


def _is_of_logging(name: str, called: Any, owner: Any) -> bool:
    if name not in _LEVELS or called is None:
        return False
    if isinstance(owner, logging.Logger):
        return called is getattr(type(owner), name, None)
    return called is getattr(logging, name, None)


def _parameter(function: FunctionType, argument: int | str, takes_self: bool) -> str | None:
    """The name of the parameter that an argument of a call is bound to."""
    parameters = inspect.signature(function, follow_wrapped=False).parameters
    if isinstance(argument, str):
        by_keyword = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
        found = parameters.get(argument)
        return argument if found and found.kind in by_keyword else None
    by_position = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    names = [name for name, each in parameters.items() if each.kind in by_position]
    position = argument + takes_self
    return names[position] if position < len(names) else None


@functools.lru_cache
def _is_raised_only(code: CodeType, parameter: str) -> bool:
    """Whether a function reads a parameter only where it raises an exception in the end."""
    for node in ast.walk(_sources.tree(code.co_filename)):
        if not isinstance(node, ast.FunctionDef) or node.name != code.co_name:
            continue
        if min([node.lineno, *(each.lineno for each in node.decorator_list)]) == (
            code.co_firstlineno
        ):
            return _raises_with(node.body, parameter)
    return False


def _raises_with(statements: Iterable[ast.stmt], name: str) -> bool:
    """Whether those of some statements that read a name end in a ``raise``."""
    for statement in statements:
        if isinstance(statement, ast.Raise) or not _reads(statement, name):
            continue
        if isinstance(statement, ast.Assert) and not _reads(statement.test, name):
            continue
        if not isinstance(statement, ast.If) or _reads(statement.test, name):
            return False
        for suite in (statement.body, statement.orelse):
            if not _always_raises(suite) and not _raises_with(suite, name):
                return False
    return True


def _always_raises(suite: list[ast.stmt]) -> bool:
    """Whether some statements raise an exception in the end, and keep nothing but local names."""
    nodes = [node for statement in suite for node in ast.walk(statement)]
    return (
        bool(suite)
        and isinstance(suite[-1], ast.Raise)
        and not any(isinstance(node, ast.Return | ast.Yield | ast.YieldFrom) for node in nodes)
        and not any(
            isinstance(node, ast.Attribute | ast.Subscript) and isinstance(node.ctx, ast.Store)
            for node in nodes
        )
    )


def _reads(tree: ast.AST, name: str) -> bool:
    """Whether a tree reads a name, other than to know whether it is None."""
    if isinstance(tree, ast.Name):
        return tree.id == name and isinstance(tree.ctx, ast.Load)
    if isinstance(tree, ast.Compare) and ast.unparse(tree) in (
        f"{name} is None",
        f"{name} is not None",
    ):
        return False
    return any(_reads(child, name) for child in ast.iter_child_nodes(tree))


@functools.lru_cache
def _texts_at(code: CodeType, instruction: int) -> list[_Text]:
    """The expressions of some code's file that an instruction belongs to."""
    line, end_line, column, end_column = _sources.extent(code, instruction)
    if line is None or end_line is None or column is None or end_column is None:
        return []
    start, end = (line, column), (end_line, end_column)
    return [
        text
        for text in _texts(_sources.tree(code.co_filename))
        if (
            (text.first, text.last) == (start, end)
            if text.argument is None
            else text.first <= start and end <= text.last
        )
    ]


@functools.lru_cache
def _texts(tree: ast.Module) -> list[_Text]:
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
            found += [_text((), 0, each) for each in node.exc.args if _is_text(each)]
        elif isinstance(node, ast.Assert) and node.msg and _is_text(node.msg):
            found.append(_text((), 0, node.msg))
        elif isinstance(node, ast.Call) and (name := _sources.dotted(node.func)):
            if any(isinstance(each, ast.Starred) for each in node.args):
                continue
            arguments: list[tuple[Argument, ast.expr]] = list(enumerate(node.args))
            arguments += [(each.arg, each.value) for each in node.keywords if each.arg]
            found += [_text(name, i, each) for i, each in arguments if _is_text(each)]
            found.append(_text(name, None, node))
    return found


def _text(function: tuple[str, ...], argument: Argument, node: Any) -> _Text:
    called = () if argument is None else tuple(filter(None, map(_called_builtin, ast.walk(node))))
    first, last = (node.lineno, node.col_offset), (node.end_lineno, node.end_col_offset)
    return _Text(function, argument, called, first, last)


def _is_text(node: ast.AST) -> bool:
    """Whether an expression makes text of plain values: ``f"{x}"``, ``"%s" % x``."""
    if isinstance(node, ast.JoinedStr):
        return _is_plain(node)
    if isinstance(node, ast.BinOp):
        return (
            isinstance(node.op, ast.Mod | ast.Add)
            and (_is_text(node.left) or _is_string(node.left))
            and _is_plain(node.right)
        )
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "format"
        and _is_string(node.func.value)
        and all(map(_is_plain, [*node.args, *(each.value for each in node.keywords)]))
    )


def _is_string(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def _is_plain(node: ast.AST) -> bool:
    return all(
        isinstance(each, _PLAIN) or _called_builtin(each) or _is_getter(each)
        for each in ast.walk(node)
    )


def _called_builtin(node: ast.AST) -> str | None:
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and not node.keywords:
        return node.func.id if node.func.id in _BUILTINS else None
    return None


def _is_getter(node: ast.AST) -> bool:
    """Whether it is ``x.size()``."""
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and not (node.args or node.keywords)
    )
