"""Finds dynamic sizes on which the capture specialized.

torch.export decides some things by the example: the value of ``int(n * 0.5)``, which branch of an
``if`` is taken, whether a size of 1 broadcasts. If that makes the program wrong for other sizes, or
for the example itself, the export fails with an error that names the dimension and the source line.
"""

from __future__ import annotations

import os
import re
import traceback
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

import torch
from torch.export.graph_signature import InputKind

from onnx_native import _library, _replaced, _warnings
from onnx_native.upstream import _upstream

if TYPE_CHECKING:
    from onnx_native.upstream._upstream import ShapeEnv


@dataclass(frozen=True)
class Line:
    """A location in the user's program; empty if unknown."""

    source: str = ""  # "model.py:42"
    code: str = ""


_TORCH = os.path.dirname(torch.__file__)
# PyTorch's files between the code that asks for the truth of a condition and its decision, and
# those that run the program's code in place of Python.
_ASKING = (
    __file__,
    torch.__file__,
    os.path.join(_TORCH, "fx", "experimental", ""),
    os.path.join(_TORCH, "utils", "_stats.py"),
)
_EVALUATING = os.path.join(_TORCH, "_dynamo", "")
# What no line of the program is in: also code that has no file.
_NOT_OF_PROGRAM = (*_library.NOT_OF_USER, "<")
_REMAINDER = re.compile(r"Mod\((\w+), (\w+)\)")

# Source lines of guards and of deferred assertions, by expression; torch.export does not keep them.
_lines: weakref.WeakKeyDictionary[ShapeEnv, dict[str, Line]] = weakref.WeakKeyDictionary()


@contextmanager
def recorded_lines() -> Iterator[dict[Any, Line]]:
    """Records the source lines of guards and assertions during captures in the block.

    Yields:
        The conditions with which the last capture narrowed a size, or that the program decided by
        the example, and the lines that decide them; torch.export's program does not have them.
    """
    import sympy  # torch.export has imported it

    found: dict[Any, Line] = {}
    last: list[ShapeEnv] = []
    by_example: weakref.WeakKeyDictionary[ShapeEnv, set[Any]] = weakref.WeakKeyDictionary()
    kind: Any = _upstream.ShapeEnv
    cleanup, evaluate = kind.cleanup, kind.evaluate_expr

    def keep_lines(env: ShapeEnv) -> None:
        lines = _lines.setdefault(env, {})
        for asserts in env.deferred_runtime_asserts.values():
            for each in asserts:
                if _library.extension().pinned_sizes(str(each.expr)):
                    lines[str(each.expr)] = _stack_line(each.stack)
        cleanup(env)

    def note_guards(env: ShapeEnv, condition: Any, *args: Any, **kwargs: Any) -> Any:
        before, known, deferred, tied = (
            dict(env.var_to_range),
            len(env.guards),
            env.num_deferred_runtime_asserts,
            len(env.replacements),
        )
        result = evaluate(env, condition, *args, **kwargs)
        for guard in env.guards[known:]:
            _lines.setdefault(env, {})[str(guard.expr)] = _running_line()
        if isinstance(condition, sympy.Expr) and condition.free_symbols and _asks_program():
            note(env, sympy.Eq(condition, result, evaluate=False))  # the number of a loop's steps
        if not isinstance(condition, sympy.Rel | sympy.And | sympy.Or):
            return result
        # PyTorch checks many conditions that neither narrow a size nor change its results.
        is_narrower = any(before.get(s) not in (None, r) for s, r in env.var_to_range.items())
        is_multiple = bool(result) and _is_multiple(condition)
        if len(env.guards) > known or env.num_deferred_runtime_asserts > deferred:
            by_example.setdefault(env, set()).add(condition)
        is_equation = isinstance(condition, sympy.Eq if result else sympy.Ne)
        if is_equation and len(env.replacements) > tied:
            by_example.setdefault(env, set()).add(condition)
        is_decision = condition in by_example.get(env, ()) and _asks_program()
        if is_narrower or is_multiple or is_decision:
            note(env, condition if result else sympy.Not(condition))
        return result

    def note(env: ShapeEnv, condition: Any) -> None:
        if last != [env]:
            last[:] = [env]
            found.clear()
        found.setdefault(condition, _running_line())

    _upstream.hide_frames_of(__file__)
    with _replaced.attributes(
        [(kind, "cleanup", keep_lines), (kind, "evaluate_expr", note_guards)]
    ):
        yield found


def _asks_program() -> bool:
    """Returns whether the program itself asks for the truth of a condition."""
    frame = _warnings.frame_outside(_ASKING)
    path = frame.f_code.co_filename if frame is not None else ""
    return path.startswith(_EVALUATING) or not _is_torch(path)


def _is_multiple(condition: Any) -> bool:
    """Whether the condition says that a size is a multiple of a number: Mod(n, 2) == 0."""
    return (
        getattr(condition, "rel_op", None) == "=="
        and _REMAINDER.fullmatch(str(condition.lhs)) is not None
    )


def check(program: torch.export.ExportedProgram, names: Mapping[str, str]) -> dict[str, int]:
    """Returns the example's value of each of torch.export's symbols.

    Args:
        program: The captured program.
        names: Maps torch.export's symbols to the user's names.

    Raises:
        ExportError: The program fixes a dynamic dimension, or contradicts the example.
    """
    dynamic = _dynamic_symbols(program)
    if not dynamic:
        return {}
    for guard, place in _guards(program):
        for size in _library.extension().pinned_sizes(guard):
            if size in dynamic or (size.startswith("L[") and not guard.startswith(f"{size} == ")):
                _fail_pinned(guard, size, names, place)
    for symbol, value_range in program.range_constraints.items():
        if str(symbol) in dynamic and value_range.lower == value_range.upper:
            _fail_pinned(f"{symbol} == {value_range.lower}", str(symbol), names, Line())
    hints = _example_sizes(program)
    if any(hints.get(symbol, 2) < 2 for symbol in dynamic):
        _check_shapes(program, names, hints)
    return hints


def narrowings(
    program: torch.export.ExportedProgram, names: Mapping[str, str], recorded: Mapping[Any, Line]
) -> list[dict[str, str]]:
    """Returns the conditions on dynamic sizes under which torch.export's program is valid.

    Args:
        program: The captured program.
        names: Maps torch.export's symbols to the user's names.
        recorded: The conditions that recorded_lines() found.

    Returns:
        A condition and its source line for each guard: ``{"condition": "n <= 2068", "source":
        "model.py:6"}``.
    """
    dynamic = _dynamic_symbols(program)
    env = _shape_env(program)
    if env is None or not dynamic:
        return []
    found: dict[str, str] = {}
    for guard, place in recorded.items():
        text = _condition(env.replace(guard), dynamic) or _tie(env, guard)
        if text is not None:
            found.setdefault(_renamed(text, names), place.source)
    return [{"condition": text, "source": source} for text, source in found.items()]


_CONNECTIVES = {"Or": "or", "And": "and"}  # of SymPy


def _condition(relation: Any, dynamic: set[str]) -> str | None:
    """Returns the text of relations of these symbols; None for others."""
    word = _CONNECTIVES.get(type(relation).__name__)
    if word is not None:
        parts = [_condition(part, dynamic) or "" for part in relation.args]
        texts = [f"({part})" if " or " in part or " and " in part else part for part in parts]
        return f" {word} ".join(texts) if all(texts) else None
    symbols = {str(symbol) for symbol in getattr(relation, "free_symbols", ())}
    operator = getattr(relation, "rel_op", None)
    if not symbols or not symbols <= dynamic or operator is None:
        return None
    text = _REMAINDER.sub(r"\1 % \2", f"{relation.lhs} {operator} {relation.rhs}")
    return text.replace("Min(", "min(").replace("Max(", "max(")


def _tie(env: ShapeEnv, condition: Any) -> str | None:
    """Returns the text of an equation by which the capture made two sizes one; None for others."""
    if getattr(condition, "rel_op", None) != "==" or str(env.replace(condition)) != "True":
        return None
    texts = {str(s): _upstream.source_of_symbol(env, s) for s in condition.free_symbols}
    return _renamed(str(condition.lhs) + " == " + str(condition.rhs), texts)


def sizes_above_one(
    program: torch.export.ExportedProgram, names: Mapping[str, str], lines: Sequence[str]
) -> list[dict[str, str]]:
    """Returns the guards of a program that asks how tensors lie in memory.

    torch.export answers for sizes of at least 2. With a size of 1, the layout may be another one.

    Args:
        program: The captured program.
        names: Maps torch.export's symbols to the user's names.
        lines: Where the program asks.
    """
    if not lines:
        return []
    dynamic = _dynamic_symbols(program)
    free = [
        symbol
        for symbol in sorted(dynamic)
        if not any(
            str(each) == symbol and limits.lower > 1
            for each, limits in program.range_constraints.items()
        )
    ]
    conditions: list[str | None] = [f"{symbol} != 1" for symbol in free]
    # A tensor may have this layout only where sizes are equal: x[:, :2] where the size is 2.
    for node in program.graph.nodes:
        if node.target is torch.ops.aten._assert_scalar.default:
            truth = node.args[0].meta.get("val")
            if isinstance(truth, torch.SymBool):
                conditions.append(_condition(_upstream.expression(truth), dynamic))
    return [
        {"condition": _renamed(text, names), "source": lines[0]}
        for text in dict.fromkeys(conditions)
        if text is not None
    ]


def dimensions(program: torch.export.ExportedProgram, names: Mapping[str, str]) -> dict[str, str]:
    """Returns the first dimension that has each symbol: ``{"s77": "dimension 0 of x"}``."""
    found: dict[str, str] = {}
    for node, value in _values(program):
        if not isinstance(value, torch.Tensor):
            continue
        for axis, size in enumerate(value.shape):
            symbol = str(size)
            if isinstance(size, torch.SymInt):
                found.setdefault(names.get(symbol, symbol), f"dimension {axis} of {node.name}")
    return found


def _fail_pinned(guard: str, size: str, names: Mapping[str, str], place: Line) -> NoReturn:
    text = _library.extension().describe_pin(_renamed(guard, names), names.get(size, size))
    _fail(text, place)


def _renamed(text: str, names: Mapping[str, str]) -> str:
    for symbol, name in names.items():
        text = re.sub(rf"\b{re.escape(symbol)}\b", name, text)
    return text


def _fail(cause: str, place: Line) -> NoReturn:
    _library.extension().fail(cause, place.source, place.code)
    raise AssertionError  # for type checkers


def _values(program: torch.export.ExportedProgram) -> Iterator[tuple[torch.fx.Node, Any]]:
    """Yields the user's inputs and their values in the captured program."""
    specs = program.graph_signature.input_specs
    placeholders = [node for node in program.graph.nodes if node.op == "placeholder"]
    for node, spec in zip(placeholders, specs, strict=True):
        if spec.kind is InputKind.USER_INPUT:
            yield node, node.meta.get("val")


def _sizes(value: Any) -> list[torch.SymInt]:
    sizes = value.shape if isinstance(value, torch.Tensor) else [value]
    return [size for size in sizes if isinstance(size, torch.SymInt)]


def _dynamic_symbols(program: torch.export.ExportedProgram) -> set[str]:
    return {
        str(symbol)
        for _, value in _values(program)
        for size in _sizes(value)
        for symbol in _upstream.free_symbols(size)
    }


def _example_sizes(program: torch.export.ExportedProgram) -> dict[str, int]:
    """Returns the example's value of each symbol, if known."""
    hints: dict[str, int] = {}
    for _, value in _values(program):
        for size in _sizes(value):
            expression, hint = _upstream.expression(size), _upstream.example_size(size)
            if expression.is_Symbol and hint is not None:
                known = hints.setdefault(str(expression), int(hint))
                if known != hint:
                    _fail(
                        "the captured program has one dynamic size where the example has "
                        f"{known} and {int(hint)}. torch.export assumes that no "
                        "dynamic size is 1 and that sizes which broadcast are equal; use equal "
                        "sizes in the example, or make the dimension of size 1 static",
                        Line(),
                    )
    return hints


def _shape_env(program: torch.export.ExportedProgram) -> ShapeEnv | None:
    for _, value in _values(program):
        for size in _sizes(value):
            return _upstream.shape_env(size)
    return None


def _guards(program: torch.export.ExportedProgram) -> Iterator[tuple[str, Line]]:
    """Yields the program's guards and their locations in the user's program."""
    env = _shape_env(program)
    if env is not None:
        for guard in env.guards:
            line = _lines.get(env, {}).get(str(guard.expr)) or _line(guard.sloc)
            yield _simplified(env, guard.expr), line
        for asserts in env.deferred_runtime_asserts.values():
            for each in asserts:
                yield _simplified(env, each.expr), _lines.get(env, {}).get(str(each.expr), Line())
    for node in program.graph.nodes:
        if node.target is torch.ops.aten._assert_scalar.default and isinstance(node.args[1], str):
            yield _library.extension().asserted_guard(node.args[1]), _node_line(node)
    if env is None or not env.guards:  # a loaded program keeps its guards elsewhere
        for text in _upstream.loaded_guards(program):
            yield text, Line()


def _simplified(env: ShapeEnv, expression: Any) -> str:
    text = str(expression)
    return str(env.simplify(expression)) if _library.extension().pinned_sizes(text) else text


def _line(sloc: Any) -> Line:
    frame = getattr(sloc, "maybe_user_loc", None) or getattr(sloc, "framework_loc", None)
    if isinstance(frame, traceback.FrameSummary):
        return _place(frame)
    return Line(str(frame)) if frame else Line()


def _place(frame: traceback.FrameSummary) -> Line:
    return Line(f"{os.path.basename(frame.filename)}:{frame.lineno}", frame.line or "")


def _stack_line(stack: Any) -> Line:
    frames = [frame for frame in stack.summary() if not _is_torch(frame.filename)]
    return _place(frames[-1]) if frames else Line()


def _running_line() -> Line:
    """The user's line that runs: the innermost frame outside PyTorch and this package."""
    frame = _warnings.frame_outside(_NOT_OF_PROGRAM)
    if frame is None:
        return Line()
    return _place(traceback.FrameSummary(frame.f_code.co_filename, frame.f_lineno, ""))


def _is_torch(path: str) -> bool:
    return path.startswith(_NOT_OF_PROGRAM)


def _node_line(node: torch.fx.Node) -> Line:
    trace = [line.strip() for line in (node.stack_trace or "").strip().splitlines()]
    found = re.match(r'File "(.*)", line (\d+)', trace[-2]) if len(trace) > 1 else None
    return Line(f"{os.path.basename(found[1])}:{found[2]}", trace[-1]) if found else Line()


def line_of(node: torch.fx.Node) -> str:
    """Returns the user's source line of a captured call: "model.py:42"."""
    return _node_line(node).source


def _check_shapes(
    program: torch.export.ExportedProgram, names: Mapping[str, str], hints: Mapping[str, int]
) -> None:
    """Compares the recorded shapes with those of eager, at the example's sizes.

    torch.export assumes that no dynamic size is 1. An example with such a size may contradict this
    assumption.
    """
    mode = _upstream.FakeTensorMode(allow_non_fake_inputs=True)
    env = _shape_env(program)

    def size_of(size: Any) -> int:
        if not isinstance(size, torch.SymInt):
            return int(size)
        expression = _upstream.expression(size)
        return int(expression.xreplace({s: hints[str(s)] for s in _upstream.free_symbols(size)}))

    def concrete(value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            strides = [size_of(stride) for stride in value.stride()]
            shape = [size_of(size) for size in value.shape]
            return torch.empty_strided(shape, strides, dtype=value.dtype, device=value.device)
        return size_of(value) if isinstance(value, torch.SymInt) else value

    def argument(value: Any) -> Any:
        return concrete(value.meta["val"]) if isinstance(value, torch.fx.Node) else value

    for node in program.graph.nodes:
        if not isinstance(node.target, _upstream.OpOverload) or env is None:
            continue
        recorded = node.meta.get("val")
        if not _has_dynamic_shape(recorded) or "squeeze" in _upstream.schema(node.target).name:
            continue  # the core reports squeeze in more detail
        try:
            with mode:
                args, kwargs = _upstream.pytree.tree_map_only(
                    torch.fx.Node, argument, (node.args, dict(node.kwargs))
                )
                actual = node.target(*args, **kwargs)
                expected = _upstream.pytree.tree_map(concrete, recorded)
        except Exception:
            continue  # data-dependent, or a symbol without a hint
        if _shapes(actual) != _shapes(expected):
            ones = [names.get(s, s) for s, hint in hints.items() if hint < 2]
            _fail(
                f"the sizes of the example contradict the captured program: {node.target} returns "
                f"{_text(recorded, names)} in the program, which is {_shapes(expected)} for the "
                f"example, but eager returns {_shapes(actual)}. torch.export assumes that no "
                f"dynamic size is 1 or 0; use larger sizes for {', '.join(ones)} in the example, "
                "or make the dimension static",
                _node_line(node),
            )


def _has_dynamic_shape(recorded: Any) -> bool:
    return any(
        isinstance(size, torch.SymInt)
        for value in _upstream.pytree.tree_leaves(recorded)
        if isinstance(value, torch.Tensor)
        for size in value.shape
    )


def _shapes(result: Any) -> list[list[int]]:
    return [
        list(value.shape)
        for value in _upstream.pytree.tree_leaves(result)
        if isinstance(value, torch.Tensor)
    ]


def _text(recorded: Any, names: Mapping[str, str]) -> str:
    shapes = [[str(size) for size in shape] for shape in _shapes(recorded)]
    return _renamed(str(shapes).replace("'", ""), names)


def warnings_of(capture: Mapping[str, Any]) -> list[str]:
    """Says for which sizes the model is valid, if the program decided that by the example."""
    guards = capture["guards"]
    if not guards:
        return []
    conditions = [
        f"  {guard['condition']} ({guard['source']}{guard.get('note', '')})" for guard in guards
    ]
    text = " ".join(guard["condition"] for guard in guards)
    places = [
        f"{name} is {place}"
        for name, place in capture["dimensions"].items()
        if re.search(rf"\b{re.escape(name)}\b", text)
    ]
    lines = ["The program makes decisions by sizes. The model is valid only where", *conditions]
    if places:
        lines.append(f"  ({'; '.join(places)})")
    return ["\n".join(lines)]
