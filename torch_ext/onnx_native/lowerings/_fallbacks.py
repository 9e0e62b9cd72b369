"""Fallbacks for operators without an entry in the op table.

The first is PyTorch's decomposition of the operator, the second its function in PyTorch's ONNX
library. ``program.export_report["fallbacks"]`` counts their uses.
"""

import functools
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

from onnx_native import _context, _options
from onnx_native.upstream import _upstream

_enabled = os.environ.get("ONNX_NATIVE_FALLBACKS", "1") != "0"


@contextmanager
def fallbacks(enabled: bool) -> Iterator[None]:
    """Enables or disables fallbacks for the exports of all threads while the block runs.

    ``onnx_native.options(fallbacks=...)`` does so for the exports of the block, and takes
    precedence. The environment variable ``ONNX_NATIVE_FALLBACKS=0`` disables them for the process.
    """
    global _enabled
    before = _enabled
    _enabled = enabled
    try:
        yield
    finally:
        _enabled = before


def is_enabled() -> bool:
    """Returns whether operators without a native lowering may use a fallback."""
    chosen = _options.current().fallbacks
    return _enabled if chosen is None else chosen


class Call:
    """A captured call as a function of its tensors and symbolic numbers (its values)."""

    def __init__(self, node: torch.fx.Node) -> None:
        op: Any = node.target
        names = [argument.name for argument in _upstream.schema(op).arguments]
        ordered = dict(zip(names, node.args, strict=False)) | dict(node.kwargs)
        arguments = {name: ordered[name] for name in names if name in ordered}
        self.leaves, self._spec = _upstream.pytree.tree_flatten(arguments)
        self.places = [i for i, leaf in enumerate(self.leaves) if _is_value(leaf)]
        self.op = op
        self.examples = [example(self.leaves[place]) for place in self.places]

    def arguments(self, values: Any) -> dict[str, Any]:
        """Returns the call's arguments by name, with `values` in place of its values."""
        leaves = [example(leaf) for leaf in self.leaves]
        for place, value in zip(self.places, values, strict=True):
            leaves[place] = value
        result: dict[str, Any] = _upstream.pytree.tree_unflatten(leaves, self._spec)
        return result

    def __call__(self, op: Any, values: Any) -> Any:
        """Calls an overload with the same parameters."""
        arguments = self.arguments(values)
        positional = [
            arguments.pop(argument.name)
            for argument in _upstream.schema(op).arguments
            if not argument.kwarg_only and argument.name in arguments
        ]
        return op(*positional, **arguments)


def example(leaf: Any) -> Any:
    """Returns the value that a captured argument had during the capture."""
    return leaf.meta.get("val") if isinstance(leaf, torch.fx.Node) else leaf


# Like the reader, treats a size with a known number as a number, not as a value.
def _is_value(leaf: Any) -> bool:
    if not isinstance(leaf, torch.fx.Node):
        return False
    value = example(leaf)
    if isinstance(value, torch.SymInt):
        return not _upstream.expression(value).is_number
    return not isinstance(value, int | float | bool)


def overload(key: str) -> Any:
    """Returns the operator of a key of the op table."""
    namespace, _, name = key.partition("::")
    name, _, variant = name.partition(".")
    return getattr(getattr(getattr(torch.ops, namespace), name), variant or "default")


def key_of(op: _upstream.OpOverload) -> str:
    """Returns the key of an operator in the op table."""
    return op.name().removesuffix(".default")


@functools.cache
def _core_decompositions() -> dict[Any, Any]:
    return dict(torch.export.default_decompositions().items())


def _decompositions(op: Any, has_lowering: Callable[[str], bool]) -> dict[Any, Any]:
    """Returns decompositions of `op` and, recursively, of operators without a lowering."""
    core = _core_decompositions()
    table = {
        other: function
        for other, function in core.items()
        if isinstance(other, _upstream.OpOverload) and not has_lowering(key_of(other))
    }
    # PyTorch's own decomposition of an ONNX operator is its implementation.
    own = (
        core.get(op)
        or _upstream.decomposition_table.get(op)
        or torch.onnx.ops.aten_decompositions().get(op)
    )
    if own is not None:
        table[op] = own
    return table


def decompose(
    node: torch.fx.Node, key: str, values: int, has_lowering: Callable[[str], bool]
) -> torch.fx.GraphModule | None:
    """Returns PyTorch's decomposition of one captured call, or None if there is none.

    Args:
        node: The call.
        key: The operator to decompose: the node's own, or its functional form.
        values: Number of tensors and symbolic numbers that the call takes.
        has_lowering: Returns whether the op table has a key.

    Returns:
        A graph whose inputs are the call's values, in the order of the schema.
    """
    try:
        op = overload(key)
        return trace(op, Call(node), values, _decompositions(op, has_lowering))
    except Exception:
        # Decompositions raise exceptions of any kind.
        return None


@_context.one_at_a_time
def trace(
    op: Any, call: Call, values: int, decompositions: dict[Any, Any]
) -> torch.fx.GraphModule | None:
    """Traces a call with these decompositions; returns None if the call does not decompose."""
    if len(call.places) != values or not call.examples:
        return None
    mode = _upstream.detect_fake_mode(call.examples)
    if mode is None:
        return None
    tracer = _upstream.make_fx(lambda *given: call(op, given), decomposition_table=decompositions)
    with mode, _upstream.enable_python_dispatcher():
        module: torch.fx.GraphModule = tracer(*call.examples)
    if any(inner.target is op for inner in module.graph.nodes):
        return None
    return module


def library_lowering(node: torch.fx.Node) -> Callable[..., Any] | None:
    """Returns a lowering of this call by PyTorch's ONNX function library, or None.

    The lowering takes a builder, the call's positional arguments and its keyword arguments.
    """
    from onnx_native.lowerings import _onnxscript

    function = _onnxscript.library_function(node)
    if function is None:
        return None
    return lambda builder, args, kwargs: _onnxscript.replay_call(builder, function, args, kwargs)
