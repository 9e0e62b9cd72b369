"""Inputs of TorchScript modules and functions, scripted or traced."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch

from onnx_native import _library
from onnx_native.request import _declarations, _shapes, _sizes, _structure
from onnx_native.upstream import _upstream

if TYPE_CHECKING:
    from onnx_native._C import ScriptInput

# The dtypes of numbers that are inputs of a model. A bool is an int, so it comes first.
_DTYPES = {bool: torch.bool, int: torch.int64, float: torch.float32}


def is_script(model: Any) -> bool:
    """Returns whether the model is TorchScript, which torch.export does not accept."""
    return isinstance(model, (torch.jit.ScriptModule, torch.jit.ScriptFunction))


def parameters(model: Any) -> list[Any]:
    """Returns the parameters of forward or of the function, without ``self``."""
    is_function = isinstance(model, torch.jit.ScriptFunction)
    schema: Any = model.schema if is_function else _upstream.forward_schema(model)
    return list(schema.arguments)[0 if is_function else 1 :]


def name_of(model: Any) -> str:
    """Returns the function's name, for messages."""
    return str(model.name) if isinstance(model, torch.jit.ScriptFunction) else "forward"


def takes_dict(model: Any, count: int) -> bool:
    """Returns whether the last of `count` arguments is a dict, not the keyword arguments."""
    taken = parameters(model)
    return count <= len(taken) and taken[count - 1].type.kind() == "DictType"


def positional(model: Any, args: Any) -> tuple[Any, ...]:
    """Returns the positional arguments of a call that passes these.

    A list in place of the tuple has the arguments, unless the program takes a list. The tensors of
    the one list or tuple that a program takes may be in its place.
    """
    taken = [parameter.type.kind() for parameter in parameters(model)]
    kinds = {"ListType": list, "TupleType": tuple}
    kind = kinds.get(taken[0]) if taken else None
    if kind is None:
        return tuple(args) if isinstance(args, (list, tuple)) else (args,)
    if isinstance(args, list):
        args = (args,) if kind is list or len(taken) == 1 else tuple(args)
    elif not isinstance(args, tuple):
        args = (args,)
    if len(taken) == 1 and args and all(isinstance(arg, torch.Tensor) for arg in args):
        args = (args,)
    first = args[0] if args else None
    if isinstance(first, (list, tuple)) and not hasattr(first, "_fields"):
        return (kind(first), *args[1:])
    return tuple(args)


def arguments(model: Any, args: tuple[Any, ...], kwargs: dict[str, Any] | None) -> dict[str, Any]:
    """Returns the arguments of a call by the names of the parameters."""
    names = [parameter.name for parameter in parameters(model)]
    return {**dict(zip(names, args, strict=False)), **(kwargs or {})}


class ScriptInputs:
    """The arguments of a call in the form that the reader accepts.

    Attributes:
        specs: The arguments as the C++ reader takes them.
        arguments: The arguments, in the method's order.
        hints: The example's value of each named size.
    """

    def __init__(
        self,
        model: Any,
        args: tuple[Any, ...],
        kwargs: dict[str, Any] | None,
        dynamic_shapes: Any = None,
    ) -> None:
        self._called = name_of(model)
        self._names = [parameter.name for parameter in parameters(model)]
        self.arguments = self._ordered(args, kwargs)
        given = self._names[: len(self.arguments)]
        shapes = _shapes.in_order(given, dynamic_shapes, self._called, self.arguments)
        declared = [
            leaf
            for name, value, shape in zip(given, self.arguments, shapes, strict=True)
            for leaf in _shapes.leaves(value, shape, name)
        ]
        _declarations.check(declared)
        names = _declarations.Names(declared)
        names.warn()
        self.specs = [
            _spec(value, shape, name, names)
            for name, value, shape in zip(given, self.arguments, shapes, strict=True)
        ]
        self.hints: dict[str, int] = {}
        _collect_hints(self.specs, _upstream.pytree.tree_leaves(self.arguments), self.hints)
        self._structure = _structure.Structure("args", self.arguments)
        self._open = [not leaf.is_fixed for leaf in _leaves(self.specs)]

    def _ordered(self, args: tuple[Any, ...], kwargs: dict[str, Any] | None) -> list[Any]:
        values = list(args)
        left = dict(kwargs or {})
        if len(values) > len(self._names):
            raise TypeError(f"{self._called} takes {len(self._names)} arguments, not {len(values)}")
        for name in self._names[len(values) :]:
            if name not in left:
                break
            values.append(left.pop(name))
        if left:
            raise TypeError(f"{self._called} has no arguments {sorted(left)} at these positions")
        return values

    def larger(self) -> list[Any] | None:
        """Returns the arguments with each named size one larger; None if no size has a name."""
        if not self.hints:
            return None
        leaves, structure = _upstream.pytree.tree_flatten(self.arguments)
        for i, spec in enumerate(_leaves(self.specs)):
            for axis, size in enumerate(spec.sizes):
                if isinstance(size, str):
                    leaves[i] = _sizes.resized(leaves[i], axis, leaves[i].shape[axis] + 1)
        arguments: list[Any] = _upstream.pytree.tree_unflatten(leaves, structure)
        return arguments

    def flat(self, args: tuple[Any, ...], kwargs: dict[str, Any] | None) -> list[Any]:
        """Returns the values of the model's inputs for a call with these arguments."""
        arguments = self._structure.arranged(self._ordered(args, kwargs))
        leaves = _upstream.pytree.tree_leaves(arguments)
        return [leaf for leaf, is_open in zip(leaves, self._open, strict=True) if is_open]


def _spec(value: Any, shape: Any, name: str, names: _declarations.Names) -> ScriptInput:
    kinds = _library.extension().ScriptInput
    if isinstance(value, torch.Tensor):
        shape = names.in_spec(value, shape)
        return kinds.tensor(name, value.dtype, _sizes_of(value, shape, name))
    if value is None or isinstance(value, str):
        return kinds.fixed(name, value)
    for kind, dtype in _DTYPES.items():
        if isinstance(value, kind):
            varies = _shapes.varies(shape)
            return kinds.tensor(name, dtype, []) if varies else kinds.fixed(name, value)
    elements = _shapes.elements(value, shape, name)
    if elements is None or not isinstance(value, (Mapping, list, tuple)):
        raise torch.onnx.OnnxExporterError(
            f"the argument {name} has the unsupported type {type(value).__name__}"
        )
    if isinstance(value, Mapping):
        keyed = [_spec(item, inner, str(key), names) for key, item, inner in elements]
        return kinds.mapping(name, keyed)
    listed = [_spec(item, inner, f"{name}_{i}", names) for i, item, inner in elements]
    return kinds.sequence(name, listed)


def _sizes_of(value: torch.Tensor, shape: Any, name: str) -> list[int | str]:
    sizes: list[int | str] = list(value.shape)
    for axis, entry in _shapes.axes_of(shape).items():
        if not -len(sizes) <= axis < len(sizes):
            raise _shapes.StructureError(
                f"dynamic_shapes has an entry for axis {axis} of {name}, which has "
                f"{len(sizes)} dimensions"
            )
        if _shapes.varies(entry):
            axis %= len(sizes)
            sizes[axis] = _shapes.name_of(entry) or f"{name}_dim_{axis}"
    return sizes


def _collect_hints(
    specs: Sequence[ScriptInput], values: Sequence[Any], hints: dict[str, int]
) -> None:
    for spec, value in zip(_leaves(specs), values, strict=True):
        for axis, name in enumerate(spec.sizes):
            if isinstance(name, str):
                size = value.shape[axis]
                hints[name] = min(size, hints.get(name, size))


def _leaves(specs: Sequence[ScriptInput]) -> list[ScriptInput]:
    result = []
    for spec in specs:
        result.extend([spec] if spec.elements is None else _leaves(spec.elements))
    return result
