"""Reads ``dynamic_shapes``.

A spec describes one leaf of the arguments: the sizes of a tensor (a dict by axis, or a list), or a
number. An entry for a dynamic size is a name, a ``torch.export.Dim`` or a hint such as
``Dim.DYNAMIC``; an entry for a static size is a number, None or ``Dim.STATIC``.
"""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch.export import Dim
from torch.export.graph_signature import ConstantArgument, InputKind

from onnx_native import _warnings
from onnx_native.upstream import _upstream


class StructureError(ValueError):
    """dynamic_shapes does not match the arguments."""


class Hint(str):
    """A name of a size that is dynamic unless the program fixes it, as with Dim.AUTO."""


def varies(entry: Any) -> bool:
    """Returns whether an entry declares its size or number dynamic."""
    if isinstance(entry, _upstream.DimHint):
        return not _upstream.is_static_hint(entry)
    return isinstance(entry, (str, Dim))


def name_of(entry: Any) -> str | None:
    """Returns the user's name for a size or number."""
    return entry if isinstance(entry, str) else getattr(entry, "__name__", None)


def axes_of(spec: Any) -> dict[int, Any]:
    """Returns a tensor's entries by axis; empty if the spec does not describe a tensor."""
    if isinstance(spec, Mapping):
        return dict(spec)
    return dict(enumerate(spec)) if isinstance(spec, (list, tuple)) else {}


def check_spec(tensor: torch.Tensor, spec: Any) -> None:
    """Checks that a spec describes the sizes of a tensor.

    Raises:
        StructureError: It does not.
        IndexError: It has an entry for an axis that the tensor does not have.
    """
    if isinstance(spec, (list, tuple)) and len(spec) != tensor.dim():
        raise StructureError(f"{spec} does not describe a tensor with {tensor.dim()} dimensions")
    if not isinstance(spec, (Mapping, list, tuple)):
        raise StructureError(f"{spec!r} does not describe a tensor")
    for axis, entry in axes_of(spec).items():
        if not isinstance(axis, int):
            raise StructureError(f"{axis!r} in {spec} is not an axis")
        if not -tensor.dim() <= axis < tensor.dim():
            raise IndexError(
                f"dynamic_shapes has an entry for axis {axis} of a tensor with the shape "
                f"{list(tensor.shape)}"
            )
        is_static = entry is None or entry == tensor.shape[axis]
        if not is_static and not isinstance(entry, (str, Dim, _upstream.DimHint)):
            raise StructureError(f"{entry!r} in {spec} does not describe the size of axis {axis}")


def is_none(value: Any) -> bool:
    """Returns whether there is nothing in an argument that has a size."""
    return all(leaf is None for leaf in _upstream.pytree.tree_leaves(value))


def to_length(spec: Sequence[Any], values: Sequence[Any]) -> list[Any]:
    """Returns the entries for a list of values; the Nones at its end need no entry."""
    rest = values[len(spec) :]
    return [*spec, *(None for _ in rest)] if all(map(is_none, rest)) else list(spec)


def in_order(
    names: Sequence[str],
    dynamic_shapes: Any,
    called: str = "the program",
    values: Sequence[Any] = (),
) -> list[Any]:
    """Returns the entry of ``dynamic_shapes`` for each argument; None if a dict omits it.

    Arguments of a traced module may share a name.
    """
    if dynamic_shapes is None:
        return [None] * len(names)
    if isinstance(dynamic_shapes, Mapping):
        unknown = [name for name in dynamic_shapes if name not in names]
        if unknown:
            raise StructureError(
                f"dynamic_shapes has entries for {unknown}, "
                f"but the arguments of {called} are {names}"
            )
        return [dynamic_shapes.get(name) for name in names]
    if values:
        dynamic_shapes = to_length(dynamic_shapes, values)
    if len(dynamic_shapes) != len(names):
        raise StructureError(
            f"dynamic_shapes has {len(dynamic_shapes)} entries for the arguments {names}"
        )
    return list(dynamic_shapes)


def elements(value: Any, spec: Any, name: str) -> list[tuple[Any, Any, Any]] | None:
    """Returns a container's elements as (key, element, spec), or None for a leaf.

    A spec matches its container as in torch.export; the spec of a dict may omit keys.
    """
    children = _upstream.children(value)
    if children is None:
        return None
    keys = list(value) if isinstance(value, dict) else list(range(len(children)))
    if isinstance(value, dict):
        children = list(value.values())
    if spec is None:
        specs = [None] * len(children)
    elif isinstance(value, dict):
        if not isinstance(spec, Mapping) or not set(spec) <= set(keys):
            raise StructureError(
                f"dynamic_shapes has {spec} for {name}, which is a dict with the keys {keys}"
            )
        specs = [spec.get(key) for key in keys]
    else:
        if isinstance(spec, (list, tuple)):
            specs = to_length(spec, children)
        if not isinstance(spec, (list, tuple)) or len(specs) != len(children):
            raise StructureError(
                f"dynamic_shapes has {spec} for {name}, which has {len(children)} elements; write "
                "a list with an entry for each"
            )
    return list(zip(keys, children, specs, strict=True))


def leaves(value: Any, spec: Any, name: str) -> Iterator[tuple[str, Any, Any]]:
    """Yields the leaves of an argument, each as (name, leaf, spec)."""
    parts = elements(value, spec, name)
    if parts is None:
        yield name, value, spec
        return
    for key, element, inner in parts:
        yield from leaves(element, inner, f"{name}[{key!r}]")


def for_torch(spec: Any) -> Any:
    """Returns a spec for torch.export, with ``Dim.DYNAMIC`` in place of the user's names."""

    def unnamed(entry: Any) -> Any:
        return Dim.DYNAMIC if isinstance(entry, str) else entry

    if isinstance(spec, dict):
        return {axis: unnamed(entry) for axis, entry in spec.items()}
    if isinstance(spec, (list, tuple)):
        return type(spec)(unnamed(entry) for entry in spec)
    return spec


def without_arguments(dynamic_shapes: Any) -> tuple[Any, list[Any]]:
    """Returns the shapes for torch.export and each input's spec, without using the arguments.

    The list of specs is empty if no size has a name.
    """
    if dynamic_shapes is None:
        return None, []
    specs, structure = _upstream.flatten_dynamic_shapes(dynamic_shapes)
    shapes = _upstream.pytree.tree_unflatten([for_torch(spec) for spec in specs], structure)
    named = any(name_of(entry) is not None for spec in specs for entry in axes_of(spec).values())
    return shapes, specs if named else []


def symbol_names(program: torch.export.ExportedProgram, specs: list[Any]) -> dict[str, str]:
    """Maps torch.export's symbols to the user's names: ``{"s77": "batch"}``.

    Args:
        program: The captured program.
        specs: The user's spec for each input.
    """
    # Arguments that are not tensors may or may not have an entry.
    inputs = _user_placeholders(program, constants=True)
    if len(inputs) != len(specs):
        inputs = _user_placeholders(program, constants=False)
    if len(inputs) != len(specs):
        _warnings.warn(
            "# ONNX model has different number of inputs than the flatten dynamic_shapes. "
            "The dynamic axes will not be renamed.",
            UserWarning,
        )
        return {}
    names: dict[str, str] = {}
    for node, spec in zip(inputs, specs, strict=True):
        for place, size, name in _named_sizes(node.meta.get("val"), spec):
            symbol = str(_upstream.expression(size) if isinstance(size, torch.SymInt) else size)
            if symbol.isdigit():
                _warnings.warn(
                    f"{place} of the input {node.name} is always {symbol} in the model, although "
                    f"dynamic_shapes names it {name!r}: torch.export specialized it. To learn why, "
                    "declare it by a string or as Dim.DYNAMIC."
                )
                continue
            if not symbol.isidentifier():
                continue  # an expression over other inputs' symbols
            if names.setdefault(symbol, name) != name:
                _warnings.warn(
                    f"# The axis name: {name} will not be used, since it shares "
                    f"the same shape constraints with another axis: {names[symbol]}.",
                    UserWarning,
                )
    return names | _others(program, names)


def _others(program: torch.export.ExportedProgram, names: dict[str, str]) -> dict[str, str]:
    """Returns new names for symbols of the program that the user gave to other sizes."""
    given = set(names.values())
    symbols = _symbols(program) if given else set()
    renamed: dict[str, str] = {}
    for symbol in sorted(given & symbols - set(names)):
        counted = (f"{symbol}_{i}" for i in itertools.count(1))
        renamed[symbol] = next(name for name in counted if name not in given | symbols)
    return renamed


def _symbols(program: torch.export.ExportedProgram) -> set[str]:
    """Returns the names of all symbols of the program, also of those that depend on data."""
    found = {str(symbol) for symbol in program.range_constraints}
    for node in program.graph.nodes:
        for leaf in _upstream.pytree.tree_leaves(node.meta.get("val")):
            for size in leaf.shape if isinstance(leaf, torch.Tensor) else (leaf,):
                if isinstance(size, torch.SymInt):
                    return found | {str(each) for each in _upstream.shape_env(size).var_to_range}
    return found


def _user_placeholders(
    program: torch.export.ExportedProgram, *, constants: bool
) -> list[torch.fx.Node]:
    """Returns the placeholders of the user's inputs, with or without constants, in order."""
    specs = program.graph_signature.input_specs
    placeholders = [node for node in program.graph.nodes if node.op == "placeholder"]
    return [
        node
        for spec, node in zip(specs, placeholders, strict=True)
        if spec.kind is InputKind.USER_INPUT
        and (constants or not isinstance(spec.arg, ConstantArgument))
    ]


def _named_sizes(value: Any, spec: Any) -> Iterator[tuple[str, Any, str]]:
    """Yields the sizes of an input (or an int input itself) that the user named.

    Each comes with its place in the input ("dimension 0") and its name.
    """
    named: list[tuple[str, Any, str | None]] = []
    if isinstance(value, torch.Tensor):
        named = [
            (f"dimension {axis}", value.shape[axis], name_of(entry))
            for axis, entry in axes_of(spec).items()
        ]
    elif isinstance(value, torch.SymInt):
        named = [("the value", value, name_of(spec))]
    for place, size, name in named:
        if name is not None:
            yield place, size, name
