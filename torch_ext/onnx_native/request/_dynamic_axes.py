"""Reads ``dynamic_axes``, and ``dynamic_shapes`` whose keys are names of inputs.

An input is a tensor among the leaves of the arguments. Its name is the one in ``input_names``, at
its place among the inputs, or that of its parameter.
"""

from __future__ import annotations

import collections
import inspect
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch.export import Dim

from onnx_native import _warnings
from onnx_native.upstream import _upstream


class AxesError(RuntimeError):
    """An entry of dynamic_axes or dynamic_shapes cannot be used; the message names it."""


def to_dynamic_shapes(
    model: Any,
    args: tuple[Any, ...],
    kwargs: dict[str, Any] | None,
    axes: Mapping[str, Any],
    input_names: Sequence[str],
    output_names: Sequence[str],
) -> dict[str, Any]:
    """Returns ``dynamic_axes`` as ``dynamic_shapes``, by the parameters of the program.

    Raises:
        AxesError: An entry is malformed, or none is for an input.
    """
    if not isinstance(axes, Mapping):
        raise AxesError(f"dynamic_axes must be a dict by input names, not {axes!r}")
    inputs = Leaves(model, args, kwargs or {}, input_names)
    found: dict[int, Any] = {}
    known = {*output_names, *input_names}
    unknown = []
    for name, entry in axes.items():
        leaf = inputs.find(name)
        if leaf is not None and entry is not None:
            found[leaf] = axes_of(name, entry, inputs.leaves[leaf])
        elif leaf is None and name not in known:
            unknown.append(name)
    _report_unknown(unknown, inputs.names(), output_names, any_found=bool(found))
    return inputs.tree(found)


def of_script(
    axes: Mapping[str, Any],
    arguments: Mapping[str, Any],
    input_names: Sequence[str],
    output_names: Sequence[str],
) -> dict[str, Any]:
    """Returns ``dynamic_axes`` as ``dynamic_shapes`` for TorchScript, whose arguments are given."""
    names = dict(zip(input_names, arguments, strict=False))
    shapes: dict[str, Any] = {}
    unknown = []
    for name, entry in axes.items():
        argument = names.get(name, name)
        value = arguments.get(argument)
        if isinstance(value, torch.Tensor) and entry is not None:
            given = axes_of(name, entry, value)
            shapes[argument] = {
                axis: size if isinstance(size, (str, Dim)) else f"{name}_dim_{axis}"
                for axis, size in given.items()
            }
        elif argument not in arguments and name not in output_names:
            unknown.append(name)
    _report_unknown(unknown, [*names, *arguments], output_names, any_found=bool(shapes))
    return shapes


def _report_unknown(
    unknown: Sequence[str], inputs: Sequence[str], outputs: Sequence[str], *, any_found: bool
) -> None:
    """Reports entries for names that the model does not have."""
    if not unknown:
        return
    message = (
        f"dynamic_axes has entries for {unknown}, which name no input or output of the model: "
        f"the inputs are {inputs}, and output_names is {list(outputs)}"
    )
    if not any_found:
        raise AxesError(f"{message}; no entry is for an input")
    _warnings.warn(f"{message}. These entries have no effect.")


def by_parameters(
    model: Any,
    args: tuple[Any, ...],
    kwargs: dict[str, Any] | None,
    shapes: Any,
    input_names: Sequence[str],
) -> Any:
    """Returns ``dynamic_shapes`` by parameters if its keys are names of inputs."""
    if not isinstance(shapes, Mapping) or not shapes or not input_names:
        return shapes
    inputs = Leaves(model, args, kwargs or {}, input_names)
    if all(name in inputs.bound for name in shapes):
        return shapes
    leaves = {name: inputs.find(name) for name in shapes}
    if any(leaf is None for leaf in leaves.values()):
        return shapes
    return inputs.tree({leaf: shapes[name] for name, leaf in leaves.items() if leaf is not None})


class Leaves:
    """The leaves of the arguments, by the names of the inputs and of the parameters."""

    def __init__(
        self,
        model: Any,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        names: Sequence[str],
        kinds: tuple[type, ...] = (torch.Tensor,),
    ) -> None:
        """Reads the arguments.

        Args:
            model: The program.
            args: Its positional arguments.
            kwargs: Its keyword arguments.
            names: The names of the first inputs.
            kinds: What the inputs are among the leaves.
        """
        signature = inspect.signature(getattr(model, "forward", model))
        self.bound = dict(signature.bind(*args, **kwargs).arguments)
        self._keywords = next(
            (p.name for p in signature.parameters.values() if p.kind is p.VAR_KEYWORD), None
        )
        # In the order of the model's inputs: (args, kwargs) as given, not as the parameters are.
        self.leaves = _upstream.pytree.tree_leaves((args, kwargs))
        inputs = [i for i, leaf in enumerate(self.leaves) if isinstance(leaf, kinds)]
        self._by_name = dict(zip(names, inputs, strict=False))
        self._starts = self._leaves_of_parameters(signature, args, kwargs)

    def _leaves_of_parameters(
        self, signature: inspect.Signature, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> dict[str, tuple[int, int]]:
        """The first leaf and the number of leaves of each argument, by its parameter's name."""
        named = [
            (name, value)
            for name, value in signature.bind_partial(*args).arguments.items()
            if signature.parameters[name].kind is not inspect.Parameter.VAR_KEYWORD
        ]
        starts = {}
        place = 0
        for name, value in (*named, *kwargs.items()):
            count = len(_upstream.pytree.tree_leaves(value))
            starts[name] = (place, count)
            place += count
        return starts

    def names(self) -> list[str]:
        """The names that entries may have."""
        return list(self._by_name) + [name for name in self._starts if name not in self._by_name]

    def find(self, name: str) -> int | None:
        """The leaf of the input with this name."""
        if name in self._by_name:
            return self._by_name[name]
        start, count = self._starts.get(name, (0, 0))
        is_tensor = count == 1 and isinstance(self.leaves[start], torch.Tensor)
        return start if is_tensor else None

    def tree(self, specs: dict[int, Any]) -> dict[str, Any]:
        """The specs of some leaves as dynamic_shapes, with None for the others."""
        result: dict[str, Any] = {}
        for name, value in self.bound.items():
            if name == self._keywords:
                result[name] = {
                    key: self._subtree(item, self._starts[key][0], specs)
                    for key, item in value.items()
                }
            else:
                result[name] = self._subtree(value, self._starts[name][0], specs)
        return result

    def _subtree(self, value: Any, start: int, specs: dict[int, Any]) -> Any:
        children = _upstream.children(value)
        if children is None:
            return specs.get(start)
        parts = []
        for child in children:
            parts.append(self._subtree(child, start, specs))
            start += len(_upstream.pytree.tree_leaves(child))
        if isinstance(value, dict):
            kind = collections.OrderedDict if isinstance(value, collections.OrderedDict) else dict
            return kind(zip(value, parts, strict=True))
        if hasattr(value, "_fields"):
            return type(value)(*parts)
        return tuple(parts) if isinstance(value, tuple) else parts


def axes_of(name: str, entry: Any, tensor: torch.Tensor) -> dict[int, Any]:
    """The entry of one input, with axes counted from the front."""
    if isinstance(entry, Mapping):
        named = dict(entry)
    elif isinstance(entry, (list, tuple, set, range)):
        named = dict.fromkeys(entry, Dim.DYNAMIC)
    else:
        raise AxesError(
            f"dynamic_axes[{name!r}] must be a dict from axes to names, or a list of axes, "
            f"not {entry!r}"
        )
    result: dict[int, Any] = {}
    for axis, size in named.items():
        if not isinstance(axis, int) or isinstance(axis, bool):
            raise AxesError(f"dynamic_axes[{name!r}] has the axis {axis!r}, which is not an int")
        if not -tensor.dim() <= axis < tensor.dim():
            raise AxesError(
                f"dynamic_axes[{name!r}] has an entry for axis {axis}, but the input has "
                f"{tensor.dim()} dimensions"
            )
        is_entry = isinstance(size, (str, Dim, _upstream.DimHint))
        result[axis % tensor.dim()] = size if is_entry else Dim.DYNAMIC
    return result
