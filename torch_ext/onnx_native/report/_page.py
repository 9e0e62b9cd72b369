"""The HTML page of a report: one file with the graph, its search, charts and messages.

The page loads nothing: d3 and dagre, whose licenses are in page/LICENSES.txt, are part of it.
"""

from __future__ import annotations

import ast
import json
import pathlib
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import onnx

_FOLDER = pathlib.Path(__file__).with_name("page")
_PARTS = {"style": "report.css", "dagre": "dagre.min.js", "d3": "d3.min.js"}
_SCRIPTS = {"model": "model.js", "view": "view.js"}
_ONNX = "pkg.torch.onnx."
_CALL_IS_GROUP = 3  # nodes of one call from which on it is a group
_SHOWN_ELEMENTS = 12
_DTYPES = {
    1: "f32", 2: "u8", 3: "i8", 4: "u16", 5: "i16", 6: "i32", 7: "i64", 8: "str", 9: "bool",
    10: "f16", 11: "f64", 12: "u32", 13: "u64", 14: "c64", 15: "c128", 16: "bf16",
}  # fmt: skip


def page(data: Mapping[str, Any]) -> str:
    """Returns the page that shows the data (see `report_data`)."""
    text = (_FOLDER / "report.html").read_text(encoding="utf-8")
    for name, file in {**_PARTS, **_SCRIPTS}.items():
        content = (_FOLDER / file).read_text(encoding="utf-8")
        text = text.replace(f"/*{{{{{name}}}}}*/", content)
    return text.replace("{{data}}", _script_text(data))


def _script_text(data: Any) -> str:
    """Returns data as JSON for a script element: no text in it ends the script or starts a comment.

    The surrogates of file names that are no text are shown as escapes.
    """
    text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    text = re.sub(r"[\ud800-\udfff]", lambda c: f"\\\\u{ord(c[0]):04x}", text)
    return re.sub(r"[<>\u2028\u2029]", lambda c: f"\\u{ord(c[0]):04x}", text)


def report_data(
    title: str,
    *,
    model: onnx.ModelProto | None = None,
    summary: Sequence[tuple[str, str]] = (),
    facts: Sequence[tuple[str, str]] = (),
    seconds: Mapping[str, float] | None = None,
    operators: Mapping[str, int] | None = None,
    passes: Mapping[str, int] | None = None,
    problems: Sequence[Mapping[str, str]] = (),
    errors: int = 0,
    comparison: Sequence[Mapping[str, Any]] = (),
) -> dict[str, Any]:
    """Returns what the page shows.

    Args:
        title: The name of the model.
        model: The model, without elements of its weights; None after a failure.
        summary: (name, value) pairs for the head of the page.
        facts: (name, value) pairs for the page of numbers.
        seconds: Seconds per stage.
        operators: Calls by ATen operator.
        passes: Changes by optimization pass.
        problems: Messages: dicts with the keys kind ("error", "warning" or "note"), title, text
            and code.
        errors: The number of errors among them.
        comparison: The rows of a table that compares values with eager's, by column; rows with a
            true `is_bad` are highlighted.
    """
    return {
        "title": title,
        "graph": None if model is None else _Graph(model).data(),
        "summary": list(summary),
        "facts": list(facts),
        "seconds": list((seconds or {}).items()),
        "operators": list((operators or {}).items()),
        "passes": list((passes or {}).items()),
        "problems": list(problems),
        "errors": errors,
        "comparison": _table(comparison) if comparison else None,
    }


def _table(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    columns = [name for name in rows[0] if name != "is_bad"]
    cells = [
        [cell if isinstance(cell := row[name], (int, float)) else str(cell) for name in columns]
        for row in rows
    ]
    return {
        "columns": columns,
        "rows": [[_finite(cell) for cell in row] for row in cells],
        "bad": [i for i, row in enumerate(rows) if row.get("is_bad")],
    }


def _finite(cell: Any) -> Any:
    """JSON has no infinities."""
    is_number = not isinstance(cell, float) or abs(cell) < float("inf")
    return cell if is_number else str(cell)


class _Numbered:
    """Gives equal things the same number."""

    def __init__(self) -> None:
        self.items: list[Any] = []
        self._numbers: dict[Any, int] = {}

    def __call__(self, key: Any, item: Any = None) -> int:
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self.items)
            self.items.append(key if item is None else item)
        return number


class _Graph:
    """The graph of a model as lists of numbers: 30,000 nodes take a few megabytes."""

    def __init__(self, model: onnx.ModelProto) -> None:
        self._model = model
        self._ops, self._targets, self._traces = _Numbered(), _Numbered(), _Numbered()
        self._scopes, self._values = _Numbered(), _Numbered()
        self._nodes: list[list[Any]] = []
        self._weights: list[int] = []
        self._types: dict[str, str] = {}
        self._constants: dict[str, str] = {}

    def data(self) -> dict[str, Any]:
        graph = self._model.graph
        self._declare(graph)
        self._add(graph.node, -1, "")
        for function in self._model.functions:
            key = ("function", function.domain, function.name)
            scope = self._scopes(key, [-1, function.name, f"function of {function.domain}"])
            self._add(function.node, scope, f"{function.domain}.{function.name}/")
        held = {value.name for value in graph.initializer}
        return {
            "ops": self._ops.items,
            "targets": self._targets.items,
            "traces": self._traces.items,
            "scopes": self._scopes.items,
            "nodes": self._nodes,
            "inputs": [self._value(x.name, "") for x in graph.input if x.name not in held],
            "outputs": [self._value(x.name, "") for x in graph.output],
            "weights": self._weights,
            "values": self._values.items,
        }

    def _declare(self, graph: onnx.GraphProto, within: str = "") -> None:
        """Notes the types of a graph's values."""
        for value in (*graph.input, *graph.output, *graph.value_info):
            if value.HasField("type"):
                self._types[within + value.name] = _type_text(value.type)
        for weight in graph.initializer:
            dims = ",".join(str(size) for size in weight.dims)
            self._types[within + weight.name] = f"{_DTYPES.get(weight.data_type, '?')}[{dims}]"
            self._weights.append(self._value(weight.name, within))

    def _value(self, name: str, within: str) -> int:
        key = within + name
        return self._values(key, [name, self._types.get(key, "")])

    def _add(self, nodes: Sequence[onnx.NodeProto], around: int, within: str) -> None:
        places = [_origin(node) for node in nodes]
        calls = Counter((tuple(names), call) for names, _, call, *_ in places)
        local = {name for node in nodes for name in node.output}
        for node, (names, classes, call, target, trace) in zip(nodes, places, strict=True):
            scope = self._scope(around, within, names, classes)
            if call and calls[tuple(names), call] >= _CALL_IS_GROUP:
                scope = self._scopes((within, *names, "call", call), [scope, call, target])
            op = node.op_type if node.domain in ("", "ai.onnx") else f"{node.domain}.{node.op_type}"
            inputs = [self._outer(x, within, local) for x in node.input if x]
            self._nodes.append(
                [
                    self._ops(op),
                    node.name or (node.output[0] if node.output else op),
                    scope,
                    inputs,
                    [self._value(x, within) for x in node.output if x],
                    "\n".join(_attribute_lines(node)),
                    self._targets(target) if target else -1,
                    self._traces(trace) if trace else -1,
                ]
            )
            for name, body in _subgraphs(node):
                title = f"{node.name or op}: {name}"
                place = f"{within}{node.name}.{name}/"
                self._declare(body, place)
                self._add(body.node, self._scopes(place, [scope, title, op]), place)

    def _outer(self, name: str, within: str, local: set[str]) -> int:
        """Returns the number of a value that a node reads, also from a graph around its own."""
        while within and name not in local and within + name not in self._types:
            within = within[: within[:-1].rfind("/") + 1]
            local = set()
        return self._value(name, within)

    def _scope(self, around: int, within: str, names: Sequence[str], classes: Sequence[str]) -> int:
        scope = around
        for depth, name in enumerate(names, 1):
            before = names[depth - 2] if depth > 1 else ""
            shown = name.removeprefix(f"{before}.") if before else name
            if not name:  # the model itself
                continue
            kind = classes[depth - 1] if depth <= len(classes) else ""
            scope = self._scopes((within, *names[:depth]), [scope, shown, kind])
        return scope


def _origin(node: onnx.NodeProto) -> tuple[list[str], list[str], str, str, str]:
    """Returns the modules, their classes, the call, its operator and the source of a node."""
    found = {prop.key: prop.value for prop in node.metadata_props}
    names = _listed(found.get(_ONNX + "name_scopes"))
    classes = _listed(found.get(_ONNX + "class_hierarchy"))
    call = names.pop() if names else ""
    target = classes.pop() if len(classes) > len(names) else ""
    return names, classes, call, target, found.get(_ONNX + "stack_trace", "")


def _listed(text: str | None) -> list[str]:
    if not text:
        return []
    try:
        return [str(item) for item in ast.literal_eval(text)]
    except (ValueError, SyntaxError):
        return []


def _subgraphs(node: onnx.NodeProto) -> Iterator[tuple[str, onnx.GraphProto]]:
    for attribute in node.attribute:
        if attribute.HasField("g"):
            yield attribute.name, attribute.g


def _attribute_lines(node: onnx.NodeProto) -> Iterable[str]:
    for attribute in node.attribute:
        if attribute.HasField("g"):
            continue
        if attribute.HasField("t"):
            dims = ",".join(str(size) for size in attribute.t.dims)
            value = f"{_DTYPES.get(attribute.t.data_type, '?')}[{dims}]"
        elif attribute.type == 3:
            value = attribute.s.decode("utf-8", "replace")
        elif attribute.type in (6, 7):
            items = list(attribute.floats if attribute.type == 6 else attribute.ints)
            shown = ", ".join(f"{item:g}" for item in items[:_SHOWN_ELEMENTS])
            value = f"[{shown}{', ...' if len(items) > _SHOWN_ELEMENTS else ''}]"
        elif attribute.type == 8:
            value = str([item.decode("utf-8", "replace") for item in attribute.strings])
        else:
            value = f"{attribute.f:g}" if attribute.type == 1 else str(attribute.i)
        yield f"{attribute.name} = {value}"


def _type_text(kind: onnx.TypeProto) -> str:
    if kind.HasField("sequence_type"):
        return f"list of {_type_text(kind.sequence_type.elem_type)}"
    if kind.HasField("optional_type"):
        return f"optional {_type_text(kind.optional_type.elem_type)}"
    dtype = _DTYPES.get(kind.tensor_type.elem_type, "?")
    if not kind.tensor_type.HasField("shape"):
        return dtype
    sizes = (
        str(dim.dim_value) if dim.HasField("dim_value") else dim.dim_param or "?"
        for dim in kind.tensor_type.shape.dim
    )
    return f"{dtype}[{','.join(sizes)}]"
