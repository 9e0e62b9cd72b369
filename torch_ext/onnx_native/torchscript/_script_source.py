"""Prepares the source of Python functions for ``torch.jit.script``.

TorchScript takes arguments without annotations for tensors, and empty lists for lists of tensors. A
run of the program shows what they are.
"""

from __future__ import annotations

import ast
import functools
import inspect
import itertools
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from types import CodeType, FrameType, FunctionType
from typing import Any
from weakref import WeakKeyDictionary

import torch

from onnx_native import _library, _replaced
from onnx_native.questions import _sources
from onnx_native.torchscript import _unlike_python
from onnx_native.upstream import _upstream

_NONE = "None"
_DEEPEST = 4  # containers in containers
_MOST_ELEMENTS = 100  # of a container are looked at
# The augmented assignments that TorchScript compiles in another way than Python, or not at all.
_COMPILED_OTHERWISE = (
    ast.BitAnd,
    ast.BitOr,
    ast.BitXor,
    ast.FloorDiv,
    ast.Mod,
    ast.Pow,
    ast.RShift,
)


class Types:
    """The types of arguments and local variables of the functions that a program calls."""

    def __init__(self) -> None:
        self._found: dict[CodeType, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))

    @contextmanager
    def recorded(self) -> Iterator[None]:
        """Records the types while the program runs."""
        before = sys.getprofile()
        sys.setprofile(self._see)
        try:
            yield
        finally:
            sys.setprofile(before)

    def of(self, function: Any) -> dict[str, str]:
        """Returns the types of a function's variables, as TorchScript writes them."""
        code = getattr(getattr(function, "__func__", function), "__code__", None)
        found = self._found.get(code, {})  # type: ignore[arg-type]
        types = {name: _combined(texts) for name, texts in found.items()}
        return {name: text for name, text in types.items() if text is not None}

    def _see(self, frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if event not in ("call", "return") or code.co_filename.startswith(
            (*_library.NOT_OF_USER, "<")
        ):
            return
        count = code.co_argcount + code.co_kwonlyargcount
        arguments = code.co_varnames[:count]
        for name, value in frame.f_locals.items():
            if (event == "call") == (name in arguments):
                text = _text(value)
                if text is not None:
                    self._found[code][name].add(text)


class Answers:
    """What PyTorch's questions whether a program is being captured answer to it.

    TorchScript has other answers than torch.export, or none.

    Attributes:
        of_scripting: Whether a program asked torch.jit.is_scripting().
    """

    def __init__(self, *, is_scripting: bool) -> None:
        self.of_scripting = False
        self._answers = {
            torch.onnx.is_in_onnx_export: True,
            torch.compiler.is_compiling: True,
            torch.compiler.is_exporting: True,
            torch.jit.is_tracing: False,
            torch.jit.is_scripting: is_scripting,
        }

    def answer(self, called: Any) -> bool | None:
        """Returns the answer of a function; None if it is another one."""
        if not isinstance(called, FunctionType) or called not in self._answers:
            return None
        self.of_scripting |= called is torch.jit.is_scripting
        return self._answers[called]


@contextmanager
def prepared(types: Types, answers: Answers) -> Iterator[None]:
    """Annotates and rewrites the functions that TorchScript compiles."""
    parse = torch.jit.frontend.parse_def

    def parsed(function: Any) -> Any:
        definition = parse(function)
        source = definition.ast.body[0]
        known = types.of(function)
        arguments = (*source.args.args, *source.args.kwonlyargs)
        without_none = _names_with_default_none(source)
        for argument in arguments:
            text = known.get(argument.arg)
            if argument.annotation is None and text is not None:
                if argument.arg in without_none and not text.startswith("Optional"):
                    text = f"Optional[{text}]"
                argument.annotation = _annotation(text, argument)
        _Rewriter(known, source).visit(source)
        plain = getattr(function, "__func__", function)
        if not plain.__code__.co_filename.startswith(_library.NOT_OF_USER):
            _unlike_python.check(source)
            closure = inspect.getclosurevars(plain)
            names = {**closure.globals, **closure.nonlocals}
            _Answering(answers, names).visit(source)
        return definition

    replacements = [
        (torch.jit.frontend, "parse_def", parsed),
        # Functions that are compiled here are not those that the user scripts.
        (_upstream.jit_state, "_jit_caching_layer", WeakKeyDictionary()),
    ]
    with _replaced.attributes(replacements):
        yield


class _Answering(ast.NodeTransformer):
    """Replaces questions by their answers."""

    def __init__(self, answers: Answers, names: dict[str, Any]) -> None:
        self._answers = answers
        self._names = names

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        path = _sources.dotted(node.func)
        called = (
            functools.reduce(
                lambda value, name: inspect.getattr_static(value, name, None),
                path[1:],
                self._names.get(path[0]),
            )
            if path
            else None
        )
        answer = self._answers.answer(called)
        return node if answer is None else ast.copy_location(ast.Constant(answer), node)


class _Rewriter(ast.NodeTransformer):
    def __init__(self, types: dict[str, str], source: ast.FunctionDef) -> None:
        self._types = types
        self._source = source
        self._made = 0

    def visit_Assign(self, node: ast.Assign) -> ast.AST:
        """Annotates empty lists and dicts."""
        self.generic_visit(node)
        target = node.targets[0]
        is_empty = isinstance(node.value, ast.List) and not node.value.elts
        is_empty = is_empty or (isinstance(node.value, ast.Dict) and not node.value.keys)
        if not is_empty or len(node.targets) > 1 or not isinstance(target, ast.Name):
            return node
        text = self._types.get(target.id)
        if text is None or not text.startswith(("List", "Dict")):
            return node
        annotated = ast.AnnAssign(target, _annotation(text, node), node.value, simple=1)
        return ast.copy_location(annotated, node)

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.AST:
        """Writes to tensors as Python does. TorchScript makes a new tensor of ``x |= y``, drops
        ``x[0] |= y``, and gives the result of ``x %= y`` the sign of ``x``."""
        self.generic_visit(node)
        if not isinstance(node.op, _COMPILED_OTHERWISE) or _has_calls(node.target):
            return node
        target, result = (
            ast.unparse(each) for each in (node.target, ast.BinOp(node.target, node.op, node.value))
        )
        if isinstance(node.target, ast.Subscript):
            return _statement(f"{target} = {result}", node)
        is_tensor = f"isinstance({target}, Tensor)"
        return _statement(
            f"if {is_tensor}: {target}.copy_({result})\nelse: {target} = {result}", node
        )

    def visit_Name(self, node: ast.Name) -> ast.AST:
        """Gives each unused variable a name: TorchScript has one type for all called ``_``."""
        is_set = node.id == "_" and isinstance(node.ctx, ast.Store)
        if is_set and not _count(self._source, "_", ast.Load):
            node.id = self._new_name()
        return node

    def visit_For(self, node: ast.For) -> ast.AST | list[ast.AST]:
        """Rewrites what TorchScript does not have: ``continue`` in loops over modules, and the
        variable of a loop after it."""
        outside = {
            kind: _count(self._source, node.target, kind) - _count(node, node.target, kind)
            for kind in (ast.Load, ast.Store)
        }
        self.generic_visit(node)
        node.body = _without_continue(node.body)
        is_counted = isinstance(node.iter, ast.Call) and ast.unparse(node.iter.func) == "range"
        if not is_counted or not outside[ast.Load] or not isinstance(node.target, ast.Name):
            return node
        variable, inner = node.target.id, self._new_name()
        node.target.id = inner
        node.body.insert(0, _statement(f"{variable} = {inner}", node))
        first = [] if outside[ast.Store] else [_statement(f"{variable} = 0", node)]
        return [*first, node]

    def _new_name(self) -> str:
        self._made += 1
        return f"_{self._made}"


def _has_calls(source: ast.AST) -> bool:
    """Returns whether it may matter how often an expression is computed."""
    return any(isinstance(node, ast.Call | ast.NamedExpr | ast.Await) for node in ast.walk(source))


def _without_continue(body: list[ast.stmt]) -> list[ast.stmt]:
    """Moves what follows ``if ...: continue`` into the other branch."""
    for i, statement in enumerate(body):
        if isinstance(statement, ast.Continue):
            return body[:i] or [ast.copy_location(ast.Pass(), statement)]
        if not isinstance(statement, ast.If) or not statement.body:
            continue
        rest = body[i + 1 :]
        if isinstance(statement.body[-1], ast.Continue):
            statement.orelse = _without_continue([*statement.orelse, *rest])
            statement.body = _without_continue(statement.body)
            return body[: i + 1]
    return body


def _names_with_default_none(source: ast.FunctionDef) -> set[str]:
    positional = source.args.args
    defaults = source.args.defaults
    pairs = [
        *zip(positional[len(positional) - len(defaults) :], defaults, strict=True),
        *zip(source.args.kwonlyargs, source.args.kw_defaults, strict=True),
    ]
    return {
        argument.arg
        for argument, default in pairs
        if isinstance(default, ast.Constant) and default.value is None
    }


def _count(source: ast.AST, name: ast.AST | str, kind: type) -> int:
    """Returns how often a variable is read or set; 0 if `name` is something else."""
    text = name.id if isinstance(name, ast.Name) else name
    return sum(
        isinstance(node, ast.Name) and node.id == text and isinstance(node.ctx, kind)
        for node in ast.walk(source)
    )


def _annotation(text: str, at: ast.AST) -> ast.expr:
    return _placed(ast.parse(text, mode="eval").body, at)


def _statement(text: str, at: ast.AST) -> ast.stmt:
    return _placed(ast.parse(text).body[0], at)


def _placed(made: Any, at: ast.AST) -> Any:
    """Gives nodes the line of another one."""
    for node in ast.walk(made):
        if isinstance(node, (ast.expr, ast.stmt)):
            ast.copy_location(node, at)
    return made


def _combined(texts: set[str]) -> str | None:
    """Returns one type for all values of a variable, or None if there is none."""
    given = texts - {_NONE}
    if not given:
        return "Optional[Tensor]"
    if len(given) > 1:
        return None
    (text,) = given
    return f"Optional[{text}]" if _NONE in texts else text


def _text(value: Any, depth: int = 0) -> str | None:
    """Returns the type of a value as TorchScript writes it; None if it has no such type."""
    if value is None:
        return _NONE
    if isinstance(value, torch.Tensor):
        return "Tensor"
    if type(value) in (bool, int, float, str):
        return type(value).__name__
    if not isinstance(value, (list, tuple, dict)) or not value or depth == _DEEPEST:
        return None
    if isinstance(value, dict):
        key, item = (_of_all(each, depth) for each in (value, value.values()))
        return f"Dict[{key}, {item}]" if key and item else None
    if isinstance(value, list):
        item = _of_all(value, depth)
        return f"List[{item}]" if item else None
    parts = [_of_all([element], depth) for element in value]
    return f"Tuple[{', '.join(map(str, parts))}]" if type(value) is tuple and all(parts) else None


def _of_all(values: Iterable[Any], depth: int) -> str | None:
    texts = {_text(value, depth + 1) for value in itertools.islice(values, _MOST_ELEMENTS)}
    return None if None in texts else _combined({text for text in texts if text is not None})
