"""What ``dynamic_shapes`` says of a program's inputs, beyond what torch.export takes.

Strings name dimensions, and ints whose values stay open. Floats and bools stay open too: they are
captured as tensors without dimensions, of which the program takes the elements.
"""

from __future__ import annotations

import copy
import dataclasses
import functools
import importlib
import inspect
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch.export.dynamic_shapes import Dim, _DimHint, _DimHintType
from torch.utils import _pytree


@dataclasses.dataclass
class Inputs:
    """The inputs as torch.export takes them.

    Attributes:
        args: Positional arguments.
        kwargs: Keyword arguments.
        dynamic_shapes: Without strings.
        specs: What the user said of each leaf of (args, kwargs).
        scalars: The leaves that were floats and bools.
    """

    args: tuple[Any, ...]
    kwargs: dict[str, Any] | None
    dynamic_shapes: Any
    specs: list[Any]
    scalars: list[int]


class _StructureError(Exception):
    pass


def prepare(
    model: Any, args: tuple[Any, ...], kwargs: dict[str, Any] | None, dynamic_shapes: Any
) -> Inputs | None:
    """None when ``dynamic_shapes`` does not fit the arguments: torch.export says why."""
    forward = getattr(model, "forward", model)
    kwargs = kwargs or {}
    try:
        signature = inspect.signature(forward)
        bound = signature.bind(*args, **kwargs).arguments
        positional = signature.bind_partial(*args).arguments
        by_name = _by_name(list(bound), dynamic_shapes)
        specs_of: dict[str, list[Any]] = {}
        shapes: dict[str, Any] = {}
        keywords = next(
            (p.name for p in signature.parameters.values() if p.kind is p.VAR_KEYWORD), None
        )
        for name, value in bound.items():
            if name == keywords:
                spec = by_name[name]
                shapes[name] = None if spec is None else copy.copy(spec)
                for key, item in value.items():
                    converted, specs_of[key] = _convert(item, None if spec is None else spec[key])
                    if spec is not None:
                        shapes[name][key] = converted
            else:
                shapes[name], specs_of[name] = _convert(value, by_name[name])
    except (_StructureError, TypeError, ValueError, KeyError):
        return None
    specs = [spec for name in (*positional, *kwargs) for spec in specs_of[name]]
    leaves, structure = _pytree.tree_flatten((args, kwargs))
    if len(leaves) != len(specs):
        return None
    scalars = [
        i
        for i, (leaf, spec) in enumerate(zip(leaves, specs, strict=True))
        if isinstance(leaf, (bool, float)) and _is_open(spec)
    ]
    for i in scalars:
        dtype = torch.bool if isinstance(leaves[i], bool) else torch.float32
        leaves[i] = torch.tensor(leaves[i], dtype=dtype)
    args, kwargs = _pytree.tree_unflatten(leaves, structure)
    return Inputs(
        args=args,
        kwargs=kwargs,
        dynamic_shapes=shapes if isinstance(dynamic_shapes, dict) else tuple(shapes.values()),
        specs=specs,
        scalars=scalars,
    )


def _by_name(names: Sequence[str], dynamic_shapes: Any) -> dict[str, Any]:
    if isinstance(dynamic_shapes, dict):
        if set(dynamic_shapes) != set(names):
            raise _StructureError
        return dynamic_shapes
    if len(dynamic_shapes) != len(names):
        raise _StructureError
    return dict(zip(names, dynamic_shapes, strict=True))


def _convert(value: Any, spec: Any) -> tuple[Any, list[Any]]:
    """What torch.export is told of an argument, and what the user said of each of its leaves."""
    specs: list[Any] = []

    def convert_leaf(value: Any, spec: Any) -> Any:
        specs.append(spec)
        return _leaf_for_torch(value, spec)

    return _map(value, spec, convert_leaf), specs


def _map(value: Any, spec: Any, convert: Callable[[Any, Any], Any]) -> Any:
    """Maps a spec and the argument that it describes as torch.export pairs them."""
    if spec is None:
        for leaf in _pytree.tree_leaves(value):
            convert(leaf, None)
        return None
    kind = _pytree._get_node_type(value)
    if kind not in _pytree.SUPPORTED_NODES:
        return convert(value, spec)
    if isinstance(value, dict):
        if not isinstance(spec, dict) or set(spec) != set(value):
            raise _StructureError
        mapped = copy.copy(spec)
        for key, item in value.items():
            mapped[key] = _map(item, spec[key], convert)
        return mapped
    children = _pytree.SUPPORTED_NODES[kind].flatten_fn(value)[0]
    if not isinstance(spec, (list, tuple)) or len(spec) != len(children):
        raise _StructureError
    items = [_map(child, part, convert) for child, part in zip(children, spec, strict=True)]
    return type(spec)(*items) if hasattr(spec, "_fields") else type(spec)(items)


def _leaf_for_torch(value: Any, spec: Any) -> Any:
    if isinstance(value, torch.Tensor):
        if isinstance(spec, dict):
            return {axis: _for_torch(dim) for axis, dim in spec.items()}
        if isinstance(spec, (list, tuple)):
            return type(spec)(_for_torch(dim) for dim in spec)
        return spec
    if isinstance(value, (bool, float)):
        return None if spec is None or isinstance(spec, (str, Dim, _DimHint)) else spec
    if isinstance(value, int) and isinstance(spec, (str, Dim)):
        return Dim.DYNAMIC
    return spec


def _for_torch(dim: Any) -> Any:
    return Dim.DYNAMIC if isinstance(dim, str) else dim


def _is_open(spec: Any) -> bool:
    if isinstance(spec, _DimHint):
        return spec.type is not _DimHintType.STATIC
    return isinstance(spec, (str, Dim))


def register_caches(model: Any, args: tuple[Any, ...], kwargs: dict[str, Any] | None) -> None:
    """Lets torch.export take transformers' caches apart, if the program may have any."""
    caches = sys.modules.get("transformers.cache_utils")
    if caches is None:
        return
    leaves = _pytree.tree_leaves((args, kwargs))
    if not any(isinstance(leaf, caches.Cache) for leaf in leaves) and not _returns_caches(model):
        return
    try:
        exporter = importlib.import_module("transformers.exporters.exporter_dynamo")
    except ImportError:
        return  # before version 5 transformers registers its caches itself
    for kind in vars(caches).values():
        if isinstance(kind, type) and issubclass(kind, caches.Cache):
            exporter.register_pytree_node(kind)


def _returns_caches(model: Any) -> bool:
    """Whether it is a model of transformers, or has one: these return caches that they make."""
    modeling = sys.modules.get("transformers.modeling_utils")
    return (
        modeling is not None
        and isinstance(model, torch.nn.Module)
        and any(isinstance(module, modeling.PreTrainedModel) for module in model.modules())
    )


@contextmanager
def elements_of(model: Any, scalars: Sequence[int]) -> Iterator[None]:
    """Lets a module take tensors for these leaves of its arguments, in which it takes numbers."""
    if not scalars:
        yield
        return
    forward = model.forward
    own = vars(model).get("forward")

    @functools.wraps(forward)
    def with_elements(*args: Any, **kwargs: Any) -> Any:
        leaves, structure = _pytree.tree_flatten((args, kwargs))
        for i in scalars:
            leaves[i] = leaves[i].item()
        args, kwargs = _pytree.tree_unflatten(leaves, structure)
        return forward(*args, **kwargs)

    model.forward = with_elements
    try:
        yield
    finally:
        if own is None:
            del model.forward
        else:
            model.forward = own
