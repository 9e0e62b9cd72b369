"""Symbolic functions, which tell PyTorch's TorchScript exporter what a call becomes.

A symbolic function adds nodes to a TorchScript graph: ``g.op("domain::Name", x, alpha_f=1.0)``. It
runs on an empty graph here, and the nodes that it adds go to the native builder.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch

from onnx_native import _context, _libraries, _library, _warnings
from onnx_native.lowerings import _onnxscript
from onnx_native.upstream import _upstream

# Packages whose own entries are for operators that have native lowerings.


class SymbolicError(Exception):
    """A symbolic function cannot be used; the message says why."""


class Graph:
    """A TorchScript graph to which one symbolic function adds nodes."""

    def __init__(self, opset: int) -> None:
        opset = min(opset, _upstream.torchscript_newest_opset)  # PyTorch rejects newer ones
        self._graph: Any = _upstream.JitGraph()
        self._context = _upstream.GraphContext(
            graph=self._graph,
            block=self._graph.block(),
            opset=opset,
            original_node=None,  # type: ignore[arg-type]  # no node of TorchScript's
            params_dict={},
            env={},
            values_in_env=set(),
        )
        self._opset = opset
        self._given: dict[str, Any] = {}  # tensors by the names of their values

    def tensor(self, dtype: torch.dtype, sizes: Sequence[Any] | None, given: Any) -> Any:
        """Adds an input; sizes that are not numbers are dynamic."""
        value = self._graph.addInput()
        known = [size if type(size) is int else None for size in sizes or ()]
        value.inferTypeFrom(torch.empty([size or 1 for size in known], dtype=dtype, device="meta"))
        if sizes is None:
            value.setType(value.type().with_sizes(None))
        elif None in known:
            value.setType(value.type().with_sizes(known))
        self._given[value.debugName()] = given
        return value

    def known_tensor(self, elements: torch.Tensor, given: Any) -> Any:
        """Adds a tensor as a constant; nodes that use it get the tensor itself."""
        value = self._context.op("Constant", value_t=elements)
        self._given[value.debugName()] = given
        return value

    def constant(self, argument: Any) -> Any:
        """Adds a number, a string, None or a list of them, as TorchScript has them."""
        if argument is None:
            node = self._graph.insertNode(self._graph.create("prim::Constant"))
            node.output().setType(_upstream.JitNone.get())
            return node.output()
        if isinstance(argument, str):
            return self._context.op("Constant", value_s=argument)
        if isinstance(argument, torch.dtype):
            argument = _upstream.jit_scalar_type.from_dtype(argument).value
        if isinstance(argument, torch.Tensor | bool | int | float):
            return self._context.op("Constant", value_t=torch.as_tensor(argument))
        if isinstance(argument, list) and not any(map(_is_jit_value, argument)):
            return self._context.op("Constant", value_t=torch.tensor(argument))
        if isinstance(argument, list):
            items = [v if _is_jit_value(v) else self.constant(v) for v in argument]
            return self._graph.insertNode(self._graph.create("prim::ListConstruct", items)).output()
        raise SymbolicError(f"it cannot take the argument {argument!r}")

    def call(self, function: Callable[..., Any], arguments: Sequence[Any]) -> list[Any]:
        """Calls a symbolic function; returns its results."""
        with _upstream.torchscript_opset(self._opset):
            results = function(self._context, *arguments)
        results = list(results) if isinstance(results, Sequence) else [results]
        if not results or not all(map(_is_jit_value, results)):
            raise SymbolicError(f"it returns {results} instead of values of the graph")
        return results

    def op_types(self, results: Sequence[Any]) -> list[str]:
        """The operators that compute results: "onnx::Relu"."""
        return [result.node().kind() for result in results]

    def build(self, builder: Any, results: Sequence[Any]) -> list[Any]:
        """Adds the nodes to a native builder; returns the results."""
        made = dict(self._given)
        for node in self._graph.nodes():
            kind = node.kind()
            if kind in ("onnx::Constant", "prim::Constant", "prim::ListConstruct"):
                continue
            domain, _, op_type = kind.partition("::")
            if domain in ("prim", "aten") or list(node.blocks()):
                raise SymbolicError(f"it adds a node {kind} that ONNX does not have")
            attributes = {name: _attribute(node, name) for name in node.attributeNames()}
            outputs = list(node.outputs())
            if domain != "onnx":
                attributes["domain"] = domain
            inputs = [self._input(builder, made, value) for value in node.inputs()]
            new = builder.op(op_type, *inputs, outputs=len(outputs), **attributes)
            values = [new] if len(outputs) == 1 else new
            made.update(zip((o.debugName() for o in outputs), values, strict=True))
        return [self._input(builder, made, result) for result in results]

    @staticmethod
    def _input(builder: Any, made: dict[str, Any], value: Any) -> Any:
        if value.debugName() in made:
            return made[value.debugName()]
        if value.node().mustBeNone():
            return None
        if value.node().kind() == "onnx::Constant":
            return made.setdefault(value.debugName(), builder.constant(_constant(value.node())))
        raise SymbolicError(f"it uses a {value.node().kind()} as a tensor")


def _is_jit_value(value: Any) -> bool:
    return isinstance(value, _upstream.JitValue)


def _attribute(node: Any, name: str) -> Any:
    kind = node.kindOf(name)
    if kind in ("c", "cs"):  # PyTorch's name for lists of floats
        kind = "fs"
    if kind not in ("f", "fs", "i", "is", "s", "ss", "t"):
        raise SymbolicError(f"the attribute {name} of {node.kind()} has an unknown type")
    value = getattr(node, kind)(name)
    if name in ("to", "dtype") and node.kind().startswith("onnx::") and kind == "i":
        return _onnxscript.torch_dtypes()[value]
    return value


def _constant(node: Any) -> torch.Tensor:
    (name,) = node.attributeNames()
    value = _attribute(node, name)
    if isinstance(value, str):
        raise SymbolicError(f"it uses the text {value!r} as a tensor")
    return value if isinstance(value, torch.Tensor) else torch.tensor(value)


@_context.one_at_a_time
def lower(
    what: str, function: Callable[..., Any], builder: Any, arguments: Sequence[Any]
) -> list[Any]:
    """Adds the nodes of a symbolic function of a registered operator."""
    try:
        graph = Graph(builder.opset)

        def value_of(argument: Any) -> Any:
            if isinstance(argument, _library.extension().Value):
                return graph.tensor(argument.dtype, argument.shape, argument)
            if isinstance(argument, list):
                argument = [value_of(v) if _is_value(v) else v for v in argument]
            return graph.constant(argument)

        results = graph.build(builder, graph.call(function, [value_of(a) for a in arguments]))
        if len(results) != builder.results:
            raise SymbolicError(
                f"it returns {len(results)} results, but the call has {builder.results}"
            )
        return results
    except Exception as error:
        raise _upstream.GraphConstructionError(
            f"The symbolic function {function.__qualname__} of {what} cannot be used: "
            f"{type(error).__name__}: {error}. Correct it, remove it by "
            "torch.onnx.unregister_custom_op_symbolic, or write a lowering "
            "(@onnx_native.lowering)"
        ) from error


def _is_value(argument: Any) -> bool:
    return isinstance(argument, _library.extension().Value)


class SymbolicTable:
    """The user's symbolic functions of operators, as a translation table for one opset.

    Attributes:
        lowerings: Maps keys of the op table to functions of a builder, a call's positional
            arguments and its keyword arguments.
        is_of_user: Whether the user gave the table to the export.
    """

    is_of_user = False

    def __init__(self, opset: int) -> None:
        self.lowerings: dict[str, Callable[..., Any]] = {}
        self.unused: dict[str, str] = {}  # operators whose functions have no effect, and why
        for name, function, is_chosen in _registered(opset):
            schemas = _upstream.jit_schemas(name)
            if not schemas:
                self.unused[name] = "PyTorch has no operator of this name"
            elif not is_chosen:
                self.unused[name] = f"the function is for opsets newer than {opset}"
            for schema in schemas if is_chosen else ():
                key = f"{name}.{schema.overload_name}" if schema.overload_name else name
                self.lowerings[key] = _lowering(key, schema, function)

    def decompose(self, *_: Any) -> None:
        """No other operator is decomposed for the sake of the entries."""


def _registered(opset: int) -> Iterator[tuple[str, Callable[..., Any], bool]]:
    for name, function, is_chosen in _upstream.symbolic_functions(opset):
        package = getattr(function, "__module__", "").partition(".")[0]
        if package not in _libraries.OF_PYTORCH:
            yield name, function, is_chosen


def warn_of_unused(table: SymbolicTable) -> None:
    """Warns of symbolic functions that cannot have an effect."""
    messages = [
        f"torch.onnx.register_custom_op_symbolic has no effect for {name}: {reason}"
        for name, reason in table.unused.items()
    ]
    if messages:
        _warnings.warn("\n".join(messages))


def _lowering(key: str, schema: Any, function: Callable[..., Any]) -> Callable[..., Any]:
    def lowering(builder: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Any]:
        arguments = list(args)
        for argument in schema.arguments[len(args) :]:
            arguments.append(kwargs.get(argument.name, argument.default_value))
        return lower(key, function, builder, arguments)

    return lowering
