"""Lets the native capture run modules whose tensors have no elements.

Such a module is on the meta device, or was made under a FakeTensorMode. During the capture CPU
tensors without memory take the place of its tensors.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from onnx_native import _library, _undo
from onnx_native.upstream import _upstream


def lacks_elements(value: Any) -> bool:
    """Whether a value is a tensor on the meta device, or fake, of known size."""
    if not isinstance(value, torch.Tensor) or value.layout is not torch.strided:
        return False
    if not (_upstream.is_fake(value) or (value.is_meta and _is_plain(value))):
        return False
    return all(type(size) is int for size in value.shape)


def of(tensor: torch.Tensor) -> torch.Tensor:
    """Returns a CPU tensor without memory that has the dtype, sizes and strides of another."""
    placeholder: torch.Tensor = _library.extension().placeholder(tensor)
    return placeholder


@contextmanager
def in_module(model: torch.nn.Module) -> Iterator[None]:
    """Puts placeholders in place of the module's tensors without elements."""
    made: dict[int, torch.Tensor] = {}
    replaced: list[tuple[dict[str, Any], str, torch.Tensor]] = []
    for module in model.modules():
        own = vars(module)
        # Scripted modules hold their tensors elsewhere.
        for held in (own.get("_parameters"), own.get("_buffers"), own):
            if isinstance(held, dict):
                replaced += [(held, key, held[key]) for key in held if lacks_elements(held[key])]

    def put_back() -> None:
        for held, key, tensor in replaced:
            held[key] = tensor

    with _undo.at_end(put_back, of_process=True):
        for held, key, tensor in replaced:
            if id(tensor) not in made:
                placeholder = of(tensor)
                is_parameter = isinstance(tensor, torch.nn.Parameter)
                made[id(tensor)] = (
                    torch.nn.Parameter(placeholder, requires_grad=False)
                    if is_parameter
                    else placeholder
                )
            held[key] = made[id(tensor)]
        yield


def _is_plain(tensor: torch.Tensor) -> bool:
    return type(tensor) in (torch.Tensor, torch.nn.Parameter) and not tensor.is_quantized
