"""The user's names for dynamic dimensions."""

import warnings
from collections.abc import Iterator
from typing import Any

import torch
from torch.export.graph_signature import ConstantArgument, InputKind
from torch.onnx._internal.exporter import _dynamic_shapes


def user_placeholders(program: torch.export.ExportedProgram) -> list[torch.fx.Node]:
    """Placeholders of the inputs that the ONNX model has, in order."""
    specs = program.graph_signature.input_specs
    placeholders = [node for node in program.graph.nodes if node.op == "placeholder"]
    return [
        node
        for spec, node in zip(specs, placeholders, strict=True)
        if spec.kind is InputKind.USER_INPUT and not isinstance(spec.arg, ConstantArgument)
    ]


def _named_axes(axes: Any) -> Iterator[tuple[int, str]]:
    if isinstance(axes, dict):
        items = list(axes.items())
    elif isinstance(axes, (list, tuple)):
        items = list(enumerate(axes))
    else:
        items = []
    for axis, dim in items:
        if isinstance(dim, str):
            yield axis, dim
        elif isinstance(dim, torch.export.Dim):
            yield axis, dim.__name__


def symbol_names(program: torch.export.ExportedProgram, dynamic_shapes: Any) -> dict[str, str]:
    """What the user calls torch.export's symbols: ``{"s77": "batch"}``."""
    flat, _ = _dynamic_shapes._flatten_dynamic_shapes_to_axes(dynamic_shapes)
    inputs = user_placeholders(program)
    if len(inputs) != len(flat):
        warnings.warn(
            "# ONNX model has different number of inputs than the flatten dynamic_shapes. "
            "The dynamic axes will not be renamed.",
            UserWarning,
            stacklevel=4,
        )
        return {}
    names: dict[str, str] = {}
    for node, axes in zip(inputs, flat, strict=True):
        value = node.meta.get("val")
        if not isinstance(value, torch.Tensor):
            continue
        for axis, name in _named_axes(axes):
            size = value.shape[axis]
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
