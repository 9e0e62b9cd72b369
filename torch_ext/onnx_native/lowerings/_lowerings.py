"""Lowerings written in Python."""

import sys
from collections.abc import Callable
from typing import Any

from onnx_native import _library

Lowering = Callable[..., Any]

_pending: dict[str, Lowering] = {}


def lowering(op: str) -> Callable[[Lowering], Lowering]:
    """Registers the decorated function as the lowering of an operator.

    The function takes the builder and the operator's arguments, with the names and the order of the
    schema. It returns the operator's results::

        @onnx_native.lowering("mylib::scaled_gelu")
        def scaled_gelu(b, x, scale):
            return b.op("Mul", b.op("Gelu", x, approximate="tanh"), scale)

    Tensors are ``Value`` objects with ``dtype``, ``rank`` and ``shape``; numbers, strings, lists
    and dtypes are Python objects. The function takes precedence over the native lowering. A later
    registration of the same operator replaces an earlier one.

    Args:
        op: The operator with its overload, such as ``"mylib::op"`` or ``"aten::add.Tensor"``.
    """
    if "::" not in op:
        raise ValueError(f"expected an operator as 'namespace::name[.overload]', got {op!r}")
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
    """Removes the lowering that was registered for an operator."""
    key = op.removesuffix(".default")
    _pending.pop(key, None)
    if extension := sys.modules.get("onnx_native._C"):
        extension.remove_lowering(key)


@_library.at_load
def _register_pending(extension: Any) -> None:
    """Registers the lowerings that were defined before the library was loaded."""
    for key, function in _pending.items():
        extension.register_lowering(key, function)
    _pending.clear()
