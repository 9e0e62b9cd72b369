"""What a recording starts from: the leaves of the arguments, and the tensors of the module."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import torch

from onnx_native import _library, _options
from onnx_native.modules import _subclasses
from onnx_native.numbers import _declared_sizes
from onnx_native.request import _inputs
from onnx_native.upstream import _upstream

if TYPE_CHECKING:
    from onnx_native._C import ConstantKind, ModuleTensor


def is_plain(leaf: Any) -> bool:
    """Whether the recorder takes an input: a plain tensor, or a constant."""
    if isinstance(leaf, torch.Tensor):
        return (
            type(leaf) in (torch.Tensor, torch.nn.Parameter)
            and leaf.layout is torch.strided
            and not leaf.is_meta
            and not (leaf.is_quantized or leaf.is_nested or leaf.is_conj() or leaf.is_neg())
        )
    return leaf is None or isinstance(leaf, (bool, int, float, str))


def described(leaf: Any) -> str:
    """Describes an input that the recorder does not take: its class, device and layout."""
    text = f"a {type(leaf).__name__}"
    if isinstance(leaf, torch.Tensor):
        text += f" on the device {leaf.device}, {str(leaf.layout).removeprefix('torch.')}"
    return text


def names(model: torch.nn.Module, inputs: _inputs.Inputs) -> list[str]:
    """The names that torch.export gives the leaves of (args, kwargs)."""
    try:
        parameters = list(inspect.signature(model.forward).parameters.values())
    except (TypeError, ValueError):
        return []
    arguments: list[tuple[str, Any]] = []
    for i, value in enumerate(inputs.args):
        rest = next((p for p in parameters[: i + 1] if p.kind is p.VAR_POSITIONAL), None)
        if rest is not None:
            index = i - parameters.index(rest)
            arguments.append((f"{rest.name}_{index}", value))
        elif i < len(parameters):
            arguments.append((parameters[i].name, value))
    arguments += (inputs.kwargs or {}).items()
    names = []
    for prefix, value in arguments:
        for path, _ in _upstream.pytree.tree_flatten_with_path(value)[0]:
            words = [prefix, *(str(_key(entry)) for entry in path)]
            names.append(re.sub(r"[^a-zA-Z0-9]", "_", "_".join(words).lower()))
    return names


def _key(entry: Any) -> Any:
    """The index, key or attribute in an entry of a pytree path."""
    for field in ("idx", "key", "name"):
        if hasattr(entry, field):
            return getattr(entry, field)
    return entry


def state(model: torch.nn.Module) -> tuple[list[ModuleTensor], dict[str, str]]:
    """The module's tensors, and the second names of tied ones."""
    extension = _library.extension()
    kinds = extension.ConstantKind
    kept = _options.current().state
    temporary = set(_upstream.temporary_buffers(model))
    names: dict[int, str] = {}
    tied: dict[str, str] = {}
    state: list[ModuleTensor] = []
    found: Iterator[tuple[ConstantKind, str, Any]] = (
        (kind, name, tensor)
        for kind, pairs in (
            (kinds.PARAMETER, model.named_parameters(remove_duplicate=False)),
            (kinds.BUFFER, model.named_buffers(remove_duplicate=False)),
            (kinds.CONSTANT, _tensor_attributes(model)),
        )
        for outer, subclass in pairs
        for name, tensor in _subclasses.plain_tensors(outer, subclass)
    )
    for kind, name, tensor in found:
        first = names.setdefault(id(tensor), name)
        if first == name:
            if name in temporary:
                kind = kinds.TEMPORARY_BUFFER
            is_kept = kept if isinstance(kept, bool) else name in kept
            state.append(extension.ModuleTensor(name, tensor, kind, is_kept))
        elif kind != kinds.CONSTANT:
            tied[name] = first
    return state, tied


def _tensor_attributes(model: torch.nn.Module) -> Iterator[tuple[str, torch.Tensor]]:
    """Tensors that are plain attributes of modules."""
    for path, module in model.named_modules():
        for name, value in vars(module).items():
            if isinstance(value, torch.Tensor):
                yield (f"{path}.{name}" if path else name), value


def places_of_inputs(example: Sequence[Any], sizes: _declared_sizes.LeafSizes) -> list[int]:
    """Which leaves are inputs of the model: tensors, and numbers that vary."""
    return [
        i
        for i, (leaf, shape) in enumerate(zip(example, sizes, strict=True))
        if isinstance(leaf, torch.Tensor) or isinstance(shape, str)
    ]


def flattener(
    example: Sequence[Any], sizes: _declared_sizes.LeafSizes
) -> Callable[[Any, Any], Sequence[Any]]:
    """A function from (args, kwargs) to the inputs among their leaves: tensors and numbers."""
    inputs = places_of_inputs(example, sizes)

    def flatten(args: Any, kwargs: Any) -> Sequence[Any]:
        leaves = _upstream.pytree.tree_leaves((args, kwargs))
        if len(leaves) == len(example):
            return [leaves[i] for i in inputs]
        return [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]

    return flatten
