"""Files of adapters: weights that ONNX Runtime gives to inputs of a model, as those of LoRA."""

from __future__ import annotations

import fnmatch
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch

from onnx_native.program import _contents

if TYPE_CHECKING:
    from onnx_native.program._program import ONNXProgram

_BFLOAT16 = 16  # in ONNX


def save_adapter(
    program: ONNXProgram,
    weights: Mapping[str, torch.Tensor],
    path: str | os.PathLike,
    *,
    rank_axes: Mapping[str, int] | None = None,
    model_version: int = 1,
) -> None:
    """Writes weights in ONNX Runtime's format of adapters.

    Args:
        program: An export with ``options(adapters=...)``. Its ``export_report["adapters"]`` lists
            the weights that an adapter has.
        weights: Tensors by these names; others are left out. A state_dict is one.
        path: The file, usually with the suffix ``.onnx_adapter``.
        rank_axes: The axes that may be smaller than those of the program, by the names of weights
            or patterns of them: ``{"*lora_A*": 0, "*lora_B*": 1}`` for an adapter of lower rank.
            They are filled up with zeros, which changes no result.
        model_version: A number for the user.

    Raises:
        ValueError: The program has no adapters, a weight is missing, has another shape, or has
            elements that the dtype of the model does not hold.
        ImportError: ONNX Runtime is not installed.
    """
    wanted = _contents.of(program).native.adapters
    if not wanted:
        raise ValueError("the program has no adapters; export it with options(adapters=...)")
    missing = [name for name, _, _ in wanted if name not in weights]
    if missing:
        raise ValueError(
            f"there is no value for {missing[0]}, nor for {len(missing) - 1} others; the names are "
            'those of export_report["adapters"]'
        )
    axes = rank_axes or {}
    parameters = {
        name: _as_value(_fitted(name, weights[name], shape, dtype, axes))
        for name, shape, dtype in wanted
    }
    import onnxruntime as ort

    file = ort.AdapterFormat()
    file.set_adapter_version(1)
    file.set_model_version(model_version)
    file.set_parameters(parameters)
    file.export_adapter(os.fspath(path))


def _fitted(
    name: str, weight: torch.Tensor, shape: list[int], dtype: torch.dtype, axes: Mapping[str, int]
) -> torch.Tensor:
    """Returns a weight in the shape and the dtype of the model's input."""
    given = list(weight.shape)
    axis = next((axes[pattern] for pattern in axes if fnmatch.fnmatch(name, pattern)), None)
    expected = list(shape)
    if axis is not None and len(given) == len(shape):
        expected[axis] = min(given[axis], shape[axis])
    if given != expected:
        raise ValueError(
            f"{name} has the shape {given}, and the model takes {shape}; export the adapter of the "
            "largest rank, and name the axes that may be smaller with rank_axes="
        )
    full = torch.zeros(shape, dtype=dtype)
    full[tuple(slice(size) for size in given)] = weight.detach().to("cpu", dtype)
    if not full.isfinite().all():
        raise ValueError(f"{name} has elements that {dtype} does not hold")
    return full


def _as_value(tensor: torch.Tensor) -> Any:
    import onnxruntime as ort

    if tensor.dtype is torch.bfloat16:
        bits = tensor.view(torch.uint16).numpy()
        return ort.OrtValue.ortvalue_from_numpy_with_onnx_type(bits, _BFLOAT16)
    return ort.OrtValue.ortvalue_from_numpy(tensor.numpy())
