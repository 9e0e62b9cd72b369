"""Extends the ``dynamic_shapes`` of torch.export: names, and numbers as inputs.

Strings name dimensions and int inputs. A float or bool that is an input is captured as a 0-D
tensor, from which the program reads the number.
"""

from __future__ import annotations

import copy
import dataclasses
import enum
import functools
import inspect
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch.export import Dim

from onnx_native import _undo
from onnx_native.request import _declarations, _shapes
from onnx_native.upstream import _upstream


@dataclasses.dataclass
class Inputs:
    """The inputs in the form that torch.export accepts.

    Attributes:
        args: Positional arguments.
        kwargs: Keyword arguments.
        dynamic_shapes: The shapes, with strings replaced.
        specs: The user's spec for each leaf of (args, kwargs).
        scalars: Indices of the leaves that were floats or bools.
        constants: Leaves that torch.export does not accept, by their indices. Text stands in for
            them.
        fit: Whether the dynamic shapes are known to fit the arguments.
    """

    args: tuple[Any, ...]
    kwargs: dict[str, Any] | None
    dynamic_shapes: Any
    specs: list[Any]
    scalars: list[int] = dataclasses.field(default_factory=list)
    constants: dict[int, Any] = dataclasses.field(default_factory=dict)
    fit: bool = True

    @property
    def arguments(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments as (args, kwargs)."""
        return self.args, self.kwargs or {}


def prepare(
    model: Any,
    args: tuple[Any, ...],
    kwargs: dict[str, Any] | None,
    dynamic_shapes: Any,
    floats: torch.dtype = torch.float32,
) -> Inputs | None:
    """Returns None if ``dynamic_shapes`` does not match; torch.export then says why.

    Floats that are inputs have the dtype `floats`.

    Raises:
        IndexError: A tensor has no such axis.
        TorchExportError: The example contradicts ``dynamic_shapes``.
    """
    args, kwargs, constants = _without_constants(args, kwargs)
    if not dynamic_shapes:
        return Inputs(args, kwargs, dynamic_shapes, [], constants=constants)
    forward = getattr(model, "forward", model)
    kwargs = kwargs or {}
    try:
        signature = inspect.signature(forward)
        bound = signature.bind(*args, **kwargs).arguments
        positional = signature.bind_partial(*args).arguments
        specs_of: dict[str, list[Any]] = {}
        shapes: dict[str, Any] = {}
        keywords = next(
            (p.name for p in signature.parameters.values() if p.kind is p.VAR_KEYWORD), None
        )
        by_name = _by_name(bound, dynamic_shapes, keywords)
        for name, value in bound.items():
            if name == keywords:
                spec = by_name[name]
                if spec is not None:
                    _check_keys(value, spec)
                shapes[name] = None if spec is None else copy.copy(spec)
                for key, item in value.items():
                    converted, specs_of[key] = _convert(
                        item, None if spec is None else spec.get(key)
                    )
                    if spec is not None:
                        shapes[name][key] = converted
            else:
                shapes[name], specs_of[name] = _convert(value, by_name[name])
    except (TypeError, ValueError, KeyError):
        return None
    specs = [spec for name in (*positional, *kwargs) for spec in specs_of[name]]
    leaves, structure = _upstream.pytree.tree_flatten((args, kwargs))
    if len(leaves) != len(specs):
        return None
    specs = _checked(positional | kwargs, leaves, specs)
    scalars = [
        i
        for i, (leaf, spec) in enumerate(zip(leaves, specs, strict=True))
        if isinstance(leaf, (bool, float)) and _shapes.varies(spec)
    ]
    for i in scalars:
        dtype = torch.bool if isinstance(leaves[i], bool) else floats
        leaves[i] = torch.tensor(leaves[i], dtype=dtype)
    args, kwargs = _upstream.pytree.tree_unflatten(leaves, structure)
    return Inputs(
        args=args,
        kwargs=kwargs,
        dynamic_shapes=shapes if isinstance(dynamic_shapes, Mapping) else tuple(shapes.values()),
        specs=specs,
        scalars=scalars,
        constants=constants,
    )


def _checked(arguments: dict[str, Any], leaves: list[Any], specs: list[Any]) -> list[Any]:
    """Checks the specs of the leaves of arguments; returns them with a name for each size."""
    names = [
        name + _upstream.pytree.keystr(path)
        for name, value in arguments.items()
        for path, _ in _upstream.pytree.tree_flatten_with_path(value)[0]
    ]
    declared = list(zip(names, leaves, specs, strict=True))
    _declarations.check(declared)
    unique = _declarations.Names(declared)
    unique.warn()
    return [unique.in_spec(leaf, spec) for _, leaf, spec in declared]


# Kinds of constants that torch.export does not accept, or that a recorded program cannot hold.
_CONSTANTS = (enum.Enum, torch.dtype, torch.device, torch.layout, torch.memory_format)


def _without_constants(args: Any, kwargs: Any) -> tuple[Any, Any, dict[int, Any]]:
    """Replaces constants by text; returns them by the indices of their leaves."""
    leaves, structure = _upstream.pytree.tree_flatten((args, kwargs))
    constants = {i: leaf for i, leaf in enumerate(leaves) if isinstance(leaf, _CONSTANTS)}
    numbers = [i for i, leaf in enumerate(leaves) if _is_numpy_scalar(leaf)]
    if not constants and not numbers:
        return args, kwargs, {}
    for i, constant in constants.items():
        leaves[i] = str(constant)
    for i in numbers:
        leaves[i] = leaves[i].item()
    args, kwargs = _upstream.pytree.tree_unflatten(leaves, structure)
    return args, kwargs, constants


def _is_numpy_scalar(leaf: Any) -> bool:
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(leaf, numpy.generic)


def _by_name(
    arguments: dict[str, Any], dynamic_shapes: Any, keywords: str | None
) -> dict[str, Any]:
    """Returns the entry for each argument; torch.export requires one for each.

    ``**kwargs`` have a dict by the name of that parameter; their names may be among those of the
    other parameters too.
    """
    if isinstance(dynamic_shapes, Mapping):
        given = dict(dynamic_shapes)
        more = arguments.get(keywords) if keywords is not None else None
        if more is not None and keywords not in given and more.keys() & given.keys():
            given[keywords] = {name: given.pop(name) for name in more if name in given}
        _check_keys(arguments, given)
        return {name: given.get(name) for name in arguments}
    names, values = list(arguments), list(arguments.values())
    return dict(zip(names, _shapes.in_order(names, dynamic_shapes, values=values), strict=True))


def _check_keys(values: Mapping[str, Any], spec: Any) -> None:
    """Checks that there is an entry for each value, except for None."""
    if not isinstance(spec, Mapping) or spec.keys() - values.keys():
        raise _shapes.StructureError
    if not all(key in spec or _shapes.is_none(value) for key, value in values.items()):
        raise _shapes.StructureError


def _convert(value: Any, spec: Any) -> tuple[Any, list[Any]]:
    """Returns the argument's spec for torch.export, and the user's spec of each of its leaves."""
    if spec is None:
        return None, [None] * len(_upstream.pytree.tree_leaves(value))
    elements = _shapes.elements(value, spec, "an argument")
    if elements is None:
        if isinstance(value, torch.Tensor):
            _shapes.check_spec(value, spec)
        spec = _from_front(value, spec)
        return _leaf_for_torch(value, spec), [spec]
    if isinstance(value, dict):
        _check_keys(value, spec)
    converted = [(key, *_convert(element, part)) for key, element, part in elements]
    leaves = [leaf for _, _, parts in converted for leaf in parts]
    if isinstance(value, dict):
        mapped = copy.copy(spec)
        mapped.update((key, part) for key, part, _ in converted)
        return mapped, leaves
    items = [part for _, part, _ in converted]
    return type(spec)(*items) if hasattr(spec, "_fields") else type(spec)(items), leaves


def _from_front(value: Any, spec: Any) -> Any:
    """Returns a tensor's spec with all axes counted from the front, as torch.export counts them."""
    if not isinstance(value, torch.Tensor) or not isinstance(spec, dict):
        return spec
    if not any(isinstance(axis, int) and axis < 0 for axis in spec):
        return spec
    return {
        axis % value.dim() if isinstance(axis, int) and -value.dim() <= axis < 0 else axis: entry
        for axis, entry in spec.items()
    }


def _leaf_for_torch(value: Any, spec: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return _shapes.for_torch(spec)
    if isinstance(value, (bool, float)):  # constants, or tensors if they vary
        return None if isinstance(spec, (str, Dim, _upstream.DimHint)) else spec
    if isinstance(value, int) and isinstance(spec, (str, Dim)):
        return Dim.DYNAMIC
    return spec


_MARKS = ("_has_dynamo_dim_marking", "_specialize_on")


@contextmanager
def without_marks(arguments: Any) -> Iterator[None]:
    """Takes the marks of TorchDynamo off the example, which a failed torch.export leaves there.

    With the marks, a later ``torch.compile`` of the program would treat its sizes as dynamic.
    """
    tensors = [
        leaf for leaf in _upstream.pytree.tree_leaves(arguments) if isinstance(leaf, torch.Tensor)
    ]
    before = [vars(tensor).copy() for tensor in tensors]

    def put_back() -> None:
        for tensor, was in zip(tensors, before, strict=True):
            for name in vars(tensor).keys() - was.keys():
                if name.startswith("_dynamo_") or name in _MARKS:
                    delattr(tensor, name)

    with _undo.at_end(put_back):
        yield


def distinct(model: Any, arguments: Any) -> Any:
    """Returns arguments in which each tensor is another one than the others and the module's.

    torch.export takes a tensor that is passed twice for one input: the last.
    """
    held = (*model.parameters(), *model.buffers()) if isinstance(model, torch.nn.Module) else ()
    seen = set(map(id, held))

    def own(tensor: torch.Tensor) -> torch.Tensor:
        if id(tensor) not in seen:
            seen.add(id(tensor))
            return tensor
        copy = tensor.detach().clone().requires_grad_(tensor.requires_grad)
        vars(copy).update(vars(tensor))  # marks of TorchDynamo
        return copy

    return _upstream.pytree.tree_map_only(torch.Tensor, own, arguments)


@contextmanager
def elements_of(model: Any, inputs: Inputs) -> Iterator[None]:
    """Makes a module accept what the inputs have in place of numbers and constants."""
    scalars, constants = inputs.scalars, inputs.constants
    if not scalars and not constants:
        yield
        return
    forward = model.forward
    own = vars(model).get("forward")

    @functools.wraps(forward)
    def with_elements(*args: Any, **kwargs: Any) -> Any:
        leaves, structure = _upstream.pytree.tree_flatten((args, kwargs))
        for i in scalars:
            leaves[i] = leaves[i].item()
        for i, constant in constants.items():
            leaves[i] = constant
        args, kwargs = _upstream.pytree.tree_unflatten(leaves, structure)
        return forward(*args, **kwargs)

    def put_back() -> None:
        if own is not None:
            model.forward = own
        elif "forward" in vars(model):
            del model.forward

    with _undo.at_end(put_back, of_process=True):
        model.forward = with_elements
        yield
