"""TorchScript modules and functions, scripted or traced, as programs: what their inputs are.

The C++ reader is told of each argument as a tuple: ``("tensor", name, dtype, sizes)`` with sizes as
ints and names, ``("int" | "float" | "bool", name)`` for numbers that stay open, ``("literal", name,
value)``, and ``("sequence" | "mapping", name, elements)``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch.export.dynamic_shapes import _DimHint, _DimHintType
from torch.utils import _pytree


def is_script(model: Any) -> bool:
    """Whether the model is TorchScript: torch.export does not take it."""
    return isinstance(model, (torch.jit.ScriptModule, torch.jit.ScriptFunction))


def parameters(model: Any) -> list[Any]:
    """What forward, or the function, takes: the schema's arguments without ``self``."""
    is_function = isinstance(model, torch.jit.ScriptFunction)
    schema: Any = model.schema if is_function else model._c._get_method("forward").schema
    return list(schema.arguments)[0 if is_function else 1 :]


def name_of(model: Any) -> str:
    """The function's name, for messages."""
    return str(model.name) if isinstance(model, torch.jit.ScriptFunction) else "forward"


def takes_dict(model: Any, count: int) -> bool:
    """Whether the last of so many arguments is a dict and not keyword arguments."""
    taken = parameters(model)
    return count <= len(taken) and taken[count - 1].type.kind() == "DictType"


class Inputs:
    """The arguments of a call as the reader takes them.

    Attributes:
        specs: One tuple for each argument.
        arguments: The arguments, in the method's order.
        hints: The sizes of the arguments that have names.
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
        shapes = _in_order(given, dynamic_shapes, self._called)
        self.specs = [
            _spec(value, shape, name)
            for name, value, shape in zip(given, self.arguments, shapes, strict=True)
        ]
        self.hints: dict[str, int] = {}
        _collect_hints(self.specs, _pytree.tree_leaves(self.arguments), self.hints)
        self._open = [leaf[0] != "literal" for leaf in _leaves(self.specs)]

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
            raise TypeError(f"{self._called} has no arguments {sorted(left)} at these places")
        return values

    def flat(self, args: tuple[Any, ...], kwargs: dict[str, Any] | None) -> list[Any]:
        """The values of the model's inputs for a call with these arguments."""
        leaves = _pytree.tree_leaves(self._ordered(args, kwargs))
        return [leaf for leaf, is_open in zip(leaves, self._open, strict=True) if is_open]


def dynamic_shapes_of(
    dynamic_axes: Mapping[str, Any], input_names: Sequence[str] | None, model: Any
) -> dict[str, Any]:
    """``dynamic_axes`` by the names of forward's arguments; what names outputs is left out."""
    arguments = [parameter.name for parameter in parameters(model)]
    names = dict(zip(input_names or (), arguments, strict=False))
    shapes = {}
    for name, axes in dynamic_axes.items():
        argument = names.get(name, name)
        if argument in arguments:
            shapes[argument] = (
                dict(axes)
                if isinstance(axes, Mapping)
                else {axis: f"{name}_dim_{axis}" for axis in axes}
            )
    return shapes


def _in_order(names: Sequence[str], dynamic_shapes: Any, called: str) -> Sequence[Any]:
    """One entry for each argument. Those of a traced module may have the same name."""
    if dynamic_shapes is None:
        return [None] * len(names)
    if isinstance(dynamic_shapes, Mapping):
        unknown = [name for name in dynamic_shapes if name not in names]
        if unknown:
            raise ValueError(f"dynamic_shapes names {unknown}, {called}'s arguments are {names}")
        return [dynamic_shapes.get(name) for name in names]
    if len(dynamic_shapes) != len(names):
        raise ValueError(f"dynamic_shapes has {len(dynamic_shapes)} entries for {names}")
    return list(dynamic_shapes)


def _spec(value: Any, shape: Any, name: str) -> tuple[Any, ...]:
    if isinstance(value, torch.Tensor):
        return ("tensor", name, value.dtype, _sizes(value, shape, name))
    if value is None or isinstance(value, str):
        return ("literal", name, value)
    if isinstance(value, (bool, int, float)):
        kind = "bool" if isinstance(value, bool) else "int" if isinstance(value, int) else "float"
        return (kind, name) if _is_open(shape) else ("literal", name, value)
    if isinstance(value, Mapping):
        elements = [
            _spec(element, shape.get(key) if isinstance(shape, Mapping) else None, str(key))
            for key, element in value.items()
        ]
        return ("mapping", name, elements)
    if isinstance(value, (list, tuple)):
        shapes = shape if isinstance(shape, (list, tuple)) else [None] * len(value)
        elements = [
            _spec(element, inner, f"{name}_{i}")
            for i, (element, inner) in enumerate(zip(value, shapes, strict=True))
        ]
        return ("sequence", name, elements)
    raise TypeError(f"the argument {name} is a {type(value).__name__}, which no model takes")


def _sizes(value: torch.Tensor, shape: Any, name: str) -> list[int | str]:
    if shape is None:
        axes: Mapping[int, Any] = {}
    elif isinstance(shape, Mapping):
        axes = {axis % max(value.dim(), 1): dim for axis, dim in shape.items()}
    else:
        axes = dict(enumerate(shape))
    return [
        _size(size, axes.get(axis), f"{name}_dim_{axis}") for axis, size in enumerate(value.shape)
    ]


def _size(size: int, dim: Any, unnamed: str) -> int | str:
    if isinstance(dim, str):
        return dim
    if not _is_open(dim):
        return size
    return getattr(dim, "__name__", unnamed)


def _is_open(dim: Any) -> bool:
    if isinstance(dim, _DimHint):
        return dim.type is not _DimHintType.STATIC
    return dim is not None and not isinstance(dim, int)


def _collect_hints(specs: Sequence[Any], values: Sequence[Any], hints: dict[str, int]) -> None:
    for spec, value in zip(_leaves(specs), values, strict=True):
        if spec[0] != "tensor":
            continue
        for name, size in zip(spec[3], value.shape, strict=True):
            if isinstance(name, str):
                hints[name] = min(size, hints.get(name, size))


def _leaves(specs: Sequence[Any]) -> list[Any]:
    result = []
    for spec in specs:
        result.extend(_leaves(spec[2]) if spec[0] in ("sequence", "mapping") else [spec])
    return result
