"""The user's names for dynamic dimensions."""

import warnings
from collections.abc import Iterator
from typing import Any

import torch
from torch.export.graph_signature import ConstantArgument, InputKind
from torch.onnx._internal.exporter import _dynamic_shapes


def without_names(dynamic_shapes: Any) -> tuple[Any, bool]:
    """The shapes as torch.export takes them, without strings, and whether any size has a name."""
    if dynamic_shapes is None:
        return None, False
    flat, spec = _dynamic_shapes._flatten_dynamic_shapes_to_axes(dynamic_shapes)
    named = any(True for axes in flat for _ in _named_axes(axes))
    unnamed = [_unnamed(axes) for axes in flat]
    return torch.utils._pytree.tree_unflatten(unnamed, spec), named


def _unnamed(axes: Any) -> Any:
    def known(dim: Any) -> Any:
        return torch.export.Dim.DYNAMIC if isinstance(dim, str) else dim

    if isinstance(axes, dict):
        return {axis: known(dim) for axis, dim in axes.items()}
    if isinstance(axes, (list, tuple)):
        return [known(dim) for dim in axes]
    return axes


def _user_placeholders(
    program: torch.export.ExportedProgram, *, constants: bool
) -> list[torch.fx.Node]:
    """Placeholders of the user's inputs, in order, with or without those that are no tensors."""
    specs = program.graph_signature.input_specs
    placeholders = [node for node in program.graph.nodes if node.op == "placeholder"]
    return [
        node
        for spec, node in zip(specs, placeholders, strict=True)
        if spec.kind is InputKind.USER_INPUT
        and (constants or not isinstance(spec.arg, ConstantArgument))
    ]


def _named_axes(axes: Any) -> Iterator[tuple[int, str]]:
    if isinstance(axes, dict):
        items = list(axes.items())
    elif isinstance(axes, (list, tuple)):
        items = list(enumerate(axes))
    else:
        items = []
    for axis, dim in items:
        name = _name(dim)
        if name is not None:
            yield axis, name


def _name(dim: Any) -> str | None:
    return dim if isinstance(dim, str) else getattr(dim, "__name__", None)


def _named_sizes(value: Any, spec: Any) -> Iterator[tuple[Any, str]]:
    """An input's sizes, or its value if it is an int, that the user gave names."""
    if isinstance(value, torch.Tensor):
        for axis, axis_name in _named_axes(spec):
            yield value.shape[axis], axis_name
    elif isinstance(value, torch.SymInt):
        name = _name(spec)
        if name is not None:
            yield value, name


def flat_specs(dynamic_shapes: Any) -> list[Any]:
    """What ``dynamic_shapes`` says of each input, where the arguments are not at hand."""
    return _dynamic_shapes._flatten_dynamic_shapes_to_axes(dynamic_shapes)[0]


def symbol_names(program: torch.export.ExportedProgram, specs: list[Any]) -> dict[str, str]:
    """What the user calls torch.export's symbols: ``{"s77": "batch"}``.

    Args:
        program: What was captured.
        specs: What the user said of each input.
    """
    # An argument that is no tensor may have an entry or none.
    inputs = _user_placeholders(program, constants=True)
    if len(inputs) != len(specs):
        inputs = _user_placeholders(program, constants=False)
    if len(inputs) != len(specs):
        warnings.warn(
            "# ONNX model has different number of inputs than the flatten dynamic_shapes. "
            "The dynamic axes will not be renamed.",
            UserWarning,
            stacklevel=4,
        )
        return {}
    names: dict[str, str] = {}
    for node, spec in zip(inputs, specs, strict=True):
        for size, name in _named_sizes(node.meta.get("val"), spec):
            if not isinstance(size, torch.SymInt):
                continue
            symbol = str(size.node.expr)
            if not symbol.isidentifier():
                continue  # an expression over other inputs' symbols
            if names.setdefault(symbol, name) != name:
                warnings.warn(
                    f"# The axis name: {name} will not be used, since it shares "
                    f"the same shape constraints with another axis: {names[symbol]}.",
                    UserWarning,
                    stacklevel=4,
                )
    return names
