"""Recorded tensors and sizes that a program keeps where nothing restores what was there before.

`_module_changes` restores what it knows of: attributes, containers, variables of functions. A
program may also keep tensors in a ``threading.local``, a generator, a ``contextvars.ContextVar``
or an object in C. The recorded tensor itself becomes the tensor that eager would have kept there,
so that it does not matter who refers to it.
"""

from __future__ import annotations

import gc
from collections.abc import Mapping, Sequence
from types import CellType
from typing import TYPE_CHECKING, Any

import torch

from onnx_native import _library
from onnx_native.recording import _recorded_program
from onnx_native.upstream import _upstream

if TYPE_CHECKING:
    from onnx_native._C import Capture

_NUMBERS = (torch.SymInt, torch.SymFloat, torch.SymBool)


def make_eager(native: Capture, inputs: Sequence[Any], example: Mapping[str, int]) -> bool | None:
    """Ends a recording whose program keeps tensors, and makes tensors of eager of them.

    Args:
        native: The recording, with all of its outputs. It is of no use then.
        inputs: The example inputs of the recorded program.
        example: The dynamic sizes of the example. The recording may have others.

    Returns:
        Whether what the program keeps depends on its inputs; None if it keeps nothing.
    """
    for generation in range(3):
        if native.alive():
            gc.collect(generation)
    if not native.alive():
        return None
    tensors, numbers = _recorded(gc.get_objects())
    if not tensors and not numbers:  # objects in C++ keep them
        return None
    native.add_outputs(tensors)
    keeps_numbers = bool(numbers)
    _replace_numbers(native, numbers, example)
    for tensor in tensors:
        _become(tensor, _without_elements(native, tensor, example))
    if not native.finish():
        return True
    try:
        program = native.program(_recorded_program.Builder())
        values = _recorded_program.results(program, inputs)[-len(tensors) :] if tensors else []
    except Exception:  # an operator that does not run call by call, or weights without elements
        return True
    for tensor, value in zip(tensors, values, strict=True):
        _become(tensor, value)
    return keeps_numbers or _recorded_program.depends_on_inputs(program, len(tensors))


def make_eager_after_failure(native: Capture, example: Mapping[str, int]) -> None:
    """Makes tensors of eager of those that a program keeps whose recording has no end.

    Those that are not known to be the same in every call have no elements.
    """
    # No garbage was collected meanwhile, unless the program asked for it.
    for generation in (0, None):
        if not native.alive():
            return
        tensors, numbers = _recorded(gc.get_objects(generation))
        _replace_numbers(native, numbers, example)
        for tensor in tensors:
            try:
                value = None if native.varies(tensor) else native.elements(tensor, False).clone()
            except Exception:
                value = None
            if value is None:
                value = _without_elements(native, tensor, example)
            _become(tensor, value)


def _recorded(objects: list[Any]) -> tuple[list[torch.Tensor], list[Any]]:
    """The recorded tensors and numbers among objects."""
    extension = _library.extension()
    tensors = [
        each
        for each in objects
        if issubclass(type(each), torch.Tensor) and extension.is_recorded(each)
    ]
    numbers = [
        each
        for each in objects
        if issubclass(type(each), _NUMBERS) and extension.is_recorded_node(each.node)
    ]
    return tensors, numbers


def _become(tensor: torch.Tensor, value: torch.Tensor) -> None:
    """Gives a tensor the contents of another one."""
    value = value.detach().requires_grad_(tensor.requires_grad)
    _upstream.swap_contents(tensor, value)


def _without_elements(
    native: Capture, tensor: torch.Tensor, example: Mapping[str, int]
) -> torch.Tensor:
    """A tensor whose use raises an exception, in place of one that only eager computes."""
    sizes = [
        size if type(size) is int else _number(native, size, example) or 0 for size in tensor.shape
    ]
    return torch.empty(sizes, dtype=tensor.dtype, device="meta")


def _replace_numbers(native: Capture, numbers: list[Any], example: Mapping[str, int]) -> None:
    """Puts numbers of the example in place of symbolic ones where it can; empties the list."""
    while numbers:
        number = numbers.pop()
        value = _number(native, number, example)
        for holder in gc.get_referrers(number):
            _replace(holder, number, value)


def _replace(holder: Any, old: Any, new: Any) -> None:
    if isinstance(holder, CellType):
        if holder.cell_contents is old:
            holder.cell_contents = new
        return
    if isinstance(holder, type):
        for name in [name for name, value in vars(holder).items() if value is old]:
            setattr(holder, name, new)
        return
    # An object may keep its attributes without a dict, until it is asked for one.
    held = holder if isinstance(holder, (dict, list)) else getattr(holder, "__dict__", {})
    keys = range(len(held)) if isinstance(held, list) else held
    for key in [key for key in keys if held[key] is old]:
        held[key] = new


def _number(native: Capture, number: Any, example: Mapping[str, int]) -> int | None:
    """The size in the example; None if it is not known, or if the recording was refused."""
    if not isinstance(number, torch.SymInt):
        return None
    try:
        text = _library.extension().text_of_size(number)
        value = native.sizes.evaluate(text, example)
        return native.sizes.example(number) if value is None else value
    except Exception:
        return None
