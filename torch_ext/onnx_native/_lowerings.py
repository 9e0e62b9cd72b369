"""Lowerings written in Python."""

import sys
from collections.abc import Callable
from typing import Any

Lowering = Callable[..., Any]

_pending: dict[str, Lowering] = {}


def lowering(op: str) -> Callable[[Lowering], Lowering]:
    """Registers the decorated function as the ONNX form of an operator.

    It takes the builder and the operator's arguments, named and ordered as in its schema, and
    returns what it built::

        @onnx_native.lowering("mylib::scaled_gelu")
        def scaled_gelu(b, x, scale):
            return b.op("Mul", b.op("Gelu", x, approximate="tanh"), scale)

    Tensors are ``Value`` objects with ``dtype``, ``rank`` and ``shape``; numbers, strings, lists
    and dtypes are Python's. It wins over the native lowering of the same operator. A later
    registration replaces an earlier one.

    Args:
        op: The operator with its overload, as ``"mylib::op"`` or ``"aten::add.Tensor"``.
    """
    if "::" not in op:
        raise ValueError(f"an operator is written as 'namespace::name[.overload]', not {op!r}")
    key = op.removesuffix(".default")

    def register(function: Lowering) -> Lowering:
        extension = sys.modules.get("onnx_native._C")
        if extension is None:
            _pending[key] = function
        else:
            extension.register_lowering(key, function)
        return function

    return register


def remove_lowering(op: str) -> None:
    """Takes a registration back."""
    key = op.removesuffix(".default")
    _pending.pop(key, None)
    if extension := sys.modules.get("onnx_native._C"):
        extension.remove_lowering(key)


def register_pending(extension: Any) -> None:
    """Hands over what was registered before the library was loaded."""
    for key, function in _pending.items():
        extension.register_lowering(key, function)
    _pending.clear()
