"""The arguments of a call with dynamo=False, in the form that the routes take.

Tensors and numbers among the leaves of the arguments are inputs, in this order. A number that the
program decides by cannot be one; it is then a constant, as in a trace.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch.export import Dim

from onnx_native import _warnings
from onnx_native.request import _arguments, _dynamic_axes, _jit, _request, _shapes
from onnx_native.upstream import _upstream

# Which numbers are inputs, in the order of the attempts. A branch on a bool would become an If with
# both ways, where a trace has the one that was taken.
_INPUTS = (torch.Tensor, bool, int, float)
_NUMBERS: tuple[tuple[type, ...], ...] = ((bool, int, float), (int, float), ())


@dataclasses.dataclass
class Variant:
    """A request to try for a call.

    Attributes:
        request: The request.
        constants: The numbers among the arguments that are no inputs, each as text.
        is_last: Whether no other attempt follows.
    """

    request: _request.Request
    constants: list[str]
    is_last: bool


def variants(call: Any) -> Iterator[Variant]:
    """Yields what to try for a call."""
    model = _arguments.unwrapped(call.model)
    names = list(call.input_names or ())
    outputs = list(call.output_names or ())
    axes = of_names(call.dynamic_axes, [*names, *outputs])
    if _jit.is_script(model):
        own = {name: entry for name, entry in axes.items() if name not in outputs} or None
        args = _as_tuple(call.args)
        yield Variant(
            _request.Request(model, args, call.kwargs, None, own, names, outputs), [], True
        )
        return
    args, kwargs = _arguments.of_call(model, _as_tuple(call.args), call.kwargs)
    leaves = _upstream.pytree.tree_leaves((args, kwargs or {}))
    inputs = _inputs(leaves)
    named = dict(zip(inputs, names, strict=False))
    varied: list[list[int]] = []
    for kinds in _NUMBERS:
        numbers = [i for i, leaf in enumerate(leaves) if type(leaf) in kinds]
        if numbers not in varied:
            varied.append(numbers)
    for numbers in varied:
        constants = [i for i in inputs if _is_number(leaves[i]) and i not in numbers]
        yield Variant(
            _request.Request(
                model,
                args,
                kwargs,
                _specs(model, args, kwargs, names, axes, numbers),
                None,
                [name for i, name in named.items() if i not in constants],
                outputs,
                floats=torch.float64,
            ),
            [f"{named[i]} = {leaves[i]}" if i in named else str(leaves[i]) for i in constants],
            numbers is varied[-1],
        )


def count(model: Any, args: Any, kwargs: Any) -> int:
    """The number of inputs, among them numbers that a model has as constants."""
    args, kwargs = _arguments.of_call(_arguments.unwrapped(model), _as_tuple(args), kwargs)
    return len(_inputs(_upstream.pytree.tree_leaves((args, kwargs or {}))))


def of_names(axes: Mapping[str, Any] | None, known: Sequence[str]) -> dict[str, dict[int, str]]:
    """Returns ``dynamic_axes`` with a name for each axis, as PyTorch names those of a list."""
    result: dict[str, dict[int, str]] = {}
    for name, entry in (axes or {}).items():
        if isinstance(entry, Mapping):
            result[name] = dict(entry)
        else:
            result[name] = {
                axis: f"{name}_dynamic_axes_{i + 1}" for i, axis in enumerate(entry or ())
            }
        if name not in known:
            _warnings.warn(
                f"Provided key {name} for dynamic axes is not a valid input/output name",
                UserWarning,
            )
    return result


def _as_tuple(args: Any) -> Any:
    return (args,) if isinstance(args, torch.Tensor) else args


def _is_number(leaf: Any) -> bool:
    return isinstance(leaf, (bool, int, float))


def _inputs(leaves: Sequence[Any]) -> list[int]:
    return [i for i, x in enumerate(leaves) if isinstance(x, _INPUTS)]


def _specs(
    model: Any,
    args: tuple[Any, ...],
    kwargs: dict[str, Any] | None,
    names: Sequence[str],
    axes: Mapping[str, dict[int, str]],
    numbers: Sequence[int],
) -> dict[str, Any] | None:
    """Returns the entries for inputs as ``dynamic_shapes``; the numbers vary."""
    leaves = _dynamic_axes.Leaves(model, args, kwargs or {}, names, _INPUTS)
    specs: dict[int, Any] = dict.fromkeys(numbers, Dim.AUTO)
    for name, entry in axes.items():
        leaf = leaves.find(name)
        if leaf is not None and isinstance(leaves.leaves[leaf], torch.Tensor):
            known = _dynamic_axes.axes_of(name, entry, leaves.leaves[leaf])
            specs[leaf] = {axis: _hint(size) for axis, size in known.items()}
    return leaves.tree(specs) if specs else None


def _hint(name: Any) -> Any:
    """A name as in PyTorch's older exporter: the program may fix the size, with a warning."""
    return _shapes.Hint(symbol(name)) if isinstance(name, str) else Dim.AUTO


def symbol(name: str) -> str:
    """The name in expressions of a size that has any text as its name."""
    return name if name.isidentifier() else re.sub(r"\W+", "_", f"_{name}")


def labels(call: Any) -> dict[str, str]:
    """The names of sizes whose symbols are called otherwise."""
    axes = of_names(call.dynamic_axes, list(call.dynamic_axes or ()))
    names = [name for entry in axes.values() for name in entry.values() if isinstance(name, str)]
    return {symbol(name): name for name in names if symbol(name) != name}


def output_axes(
    axes: Mapping[str, Any] | None, output_names: Sequence[str] | None
) -> dict[str, dict[int, str]]:
    """The names of the axes of outputs."""
    names = output_names or ()
    given = {name: entry for name, entry in (axes or {}).items() if name in names}
    return of_names(given, names)
