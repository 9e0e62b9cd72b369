"""custom_translation_table: the user's onnxscript functions replace native lowerings.

PyTorch's exporter looks operators up in the table after its decompositions for ONNX and after
explicit type promotion. To match it, a call without an entry in the table is decomposed on its own
if the decomposition contains an operator of the table.
"""

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from onnx_native import _library
from onnx_native.lowerings import _fallbacks, _symbolics
from onnx_native.upstream import _upstream


@functools.cache
def _function_library(opset: int) -> dict[Any, list[Any]]:
    functions: dict[Any, list[Any]] = _upstream.function_library(opset).functions
    return functions


class TranslationTable:
    """A translation table.

    Attributes:
        lowerings: Maps keys of the op table to functions of a builder, a call's positional
            arguments and its keyword arguments.
        is_of_user: Whether the user gave the table to the export.

    Raises:
        TypeError: An entry is a sequence of functions, or a key is an overload packet.
    """

    is_of_user = True

    def __init__(self, entries: Mapping[Any, Any], opset: int) -> None:
        version = max(opset, _upstream.TORCHLIB_OPSET)
        # PyTorch's registry validates the entries.
        self._registry = _upstream.empty_function_library(version)
        self._registry.functions = {
            target: list(functions) for target, functions in _function_library(version).items()
        }
        self.lowerings: dict[str, Callable[..., Any]] = {}
        for target, function in entries.items():
            if isinstance(function, Sequence):
                raise TypeError(
                    "The value in custom_translation_table should be a single callable, "
                    "not a sequence"
                )
            self._registry.register_op(target, function, is_complex=False)
            # PyTorch's exporter translates these operators before it consults the table.
            if not (key := _key(target)).startswith("onnx::"):
                self.lowerings[key] = functools.partial(_translate, target, function, version)
        self._seen: dict[Any, bool] = {}
        self.lowerings = _symbolics.SymbolicTable(opset).lowerings | self.lowerings

    @functools.cached_property
    def _decompositions(self) -> dict[Any, Any]:
        registered = set(_upstream.get_onnx_implemented_overloads(self._registry))
        return _upstream.create_onnx_friendly_decomposition_table(registered)

    def decompose(self, node: torch.fx.Node, key: str, values: int) -> torch.fx.GraphModule | None:
        """Decomposes a call like PyTorch's exporter; returns None if no result is in the table.

        Args:
            node: The call.
            key: The operator to decompose: the node's own, or its functional form.
            values: Number of tensors and symbolic numbers that the call takes.
        """
        op = _fallbacks.overload(key)
        if op not in self._decompositions and not _always_decomposes(op):
            return None
        call = _fallbacks.Call(node)
        pattern = (key, *map(_described, map(_fallbacks.example, call.leaves)))
        if self._seen.get(pattern) is False:
            return None
        try:
            module = _fallbacks.trace(op, call, values, self._decompositions)
        except Exception:
            # Decompositions raise exceptions of any kind.
            module = None
        self._seen[pattern] = module is not None and any(
            isinstance(inner.target, _upstream.OpOverload)
            and _fallbacks.key_of(inner.target) in self.lowerings
            for inner in module.graph.nodes
        )
        return module if self._seen[pattern] else None


def _always_decomposes(op: _upstream.OpOverload) -> bool:
    """Returns whether run_decompositions decomposes the operator with any table."""
    return _upstream.is_cia_op(op) and not _upstream.is_preservable_cia_op(op)


def _key(target: Any) -> str:
    if isinstance(target, _upstream.OpOverload):
        return _fallbacks.key_of(target)
    if isinstance(target, _upstream.HigherOrderOperator):
        return f"higher_order::{target.__name__}"
    return f"python::{getattr(target, '__name__', target)}"


def _described(leaf: Any) -> Any:
    if isinstance(leaf, torch.Tensor):
        return leaf.dtype, tuple(map(str, leaf.shape))
    return type(leaf), str(leaf)


def _translate(
    target: Any,
    function: Callable[..., Any],
    opset: int,
    builder: Any,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
) -> Any:
    from onnx_native.lowerings import _onnxscript

    try:
        args, kwargs, dtype = _promoted(builder, target, args, kwargs)
        made = _onnxscript.replay_call(builder, function, args, kwargs, opset)
    except Exception as error:
        raise _upstream.GraphConstructionError(
            f"The translation of {_key(target)} by {function} failed for {list(args)} "
            f"and {dict(kwargs)}: {type(error).__name__}: {error}"
        ) from error
    if dtype is not None and len(made) == 1 and made[0].dtype != dtype:
        return [builder.cast(made[0], dtype)]
    return made


@functools.cache
def _promotion_table() -> Any:
    return _upstream.TypePromotionTable()


def _promoted(
    builder: Any, target: Any, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> tuple[list[Any], dict[str, Any], torch.dtype | None]:
    """Promotes the arguments; also returns the result's dtype if that changed any argument."""
    rule = None
    if isinstance(target, _upstream.OpOverload):
        rule = _promotion_table().get_rule(target.overloadpacket)
    if rule is None:
        return list(args), dict(kwargs), None
    snapshot = rule.preview_type_promotion(
        _upstream.pytree.tree_map(_example, tuple(args)),
        _upstream.pytree.tree_map(_example, dict(kwargs)),
    )
    changed = False

    def promote(value: Any, dtype: torch.dtype | None) -> Any:
        nonlocal changed
        if isinstance(value, list):
            return [promote(item, dtype) for item in value]
        own = getattr(value, "dtype", None) or _NUMBERS.get(type(value))
        if dtype is None or own is None or own == dtype:
            return value
        changed = True
        if isinstance(value, int | float | complex):
            return builder.constant(torch.tensor(value, dtype=dtype))
        return builder.cast(value, dtype)

    args = [promote(value, snapshot.args_dtypes.get(i)) for i, value in enumerate(args)]
    kwargs = {
        name: promote(value, snapshot.kwargs_dtypes.get(name)) for name, value in kwargs.items()
    }
    return args, kwargs, snapshot.out_dtype if changed else None


_NUMBERS = {bool: torch.bool, int: torch.int64, float: torch.float32}


def _example(value: Any) -> Any:
    """Returns an example of a value for the type promotion rules."""
    if not isinstance(value, _library.extension().Value):
        return value
    example = torch.empty([1] * (value.rank or 0), dtype=value.dtype, device="meta")
    return torch.ones((), dtype=value.dtype).item() if value.is_number else example
