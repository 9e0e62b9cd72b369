"""Values of a model's inputs and outputs in ONNX Runtime, for calls of the exported program."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch.export.graph_signature import ConstantArgument, InputKind

from onnx_native.program import _contents
from onnx_native.upstream import _upstream

if TYPE_CHECKING:
    import onnxruntime as ort

    from onnx_native.program._origin import Origin
    from onnx_native.program._program import ONNXProgram

# ONNX numbers of the element types that NumPy does not have.
_ONNX_TYPES = {
    torch.bfloat16: 16,
    torch.float8_e4m3fn: 17,
    torch.float8_e4m3fnuz: 18,
    torch.float8_e5m2: 19,
    torch.float8_e5m2fnuz: 20,
}


def arranged(program: ONNXProgram, args: Any, kwargs: Any) -> tuple[Any, Any]:
    """Returns the arguments of a call in the form of the export's."""
    arrange = _contents.of(program).origin.arrange
    return (args, kwargs) if arrange is None else arrange(args, kwargs)


def feeds(program: ONNXProgram, args: Any, kwargs: Any) -> dict[str, ort.OrtValue]:
    """Returns the values of the model's inputs for arguments arranged as the export's."""
    contents = _contents.of(program)
    names = contents.input_names()
    values = _flat_inputs(contents.origin, args, kwargs)
    taken = len(names) - len(program.initial_state)
    if len(values) > taken:
        raise ValueError(
            f"the model has {taken} inputs, {names[:taken]}, but the arguments have "
            f"{len(values)} tensors and numbers"
        )
    dtypes = contents.native.input_dtypes
    values = [_lowered(value, dtype) for value, dtype in zip(values, dtypes, strict=False)]
    inputs = dict(zip(names, map(_to_ort_value, values), strict=False))
    return inputs | {name: _to_ort_value(program.state[name]) for name in program.initial_state}


def feeds_of_eager(program: ONNXProgram, args: Any, kwargs: Any) -> dict[str, ort.OrtValue]:
    """Returns feeds(), with the adapters that the module itself has."""
    native = _contents.of(program).native
    adapters = {
        name: _to_ort_value(native.adapter_value(name).to(dtype))
        for name, _, dtype in native.adapters
    }
    return feeds(program, args, kwargs) | adapters


def _lowered(value: Any, dtype: torch.dtype) -> Any:
    """Rounds a float32 tensor for a model that was exported with half-precision inputs."""
    is_half = dtype in (torch.float16, torch.bfloat16)
    if is_half and isinstance(value, torch.Tensor) and value.dtype is torch.float32:
        return value.to(dtype)
    return value


def _flat_inputs(origin: Origin, args: Any, kwargs: Any) -> Sequence[Any]:
    """Returns the values of the model's inputs, without None and specialized constants."""
    if origin.flatten is not None:
        return _upstream.process_args(tuple(origin.flatten(args, kwargs)), {})
    flat, _ = _upstream.pytree.tree_flatten((args, kwargs))
    if origin.exported is not None:
        specs = [
            spec
            for spec in origin.exported.graph_signature.input_specs
            if spec.kind is InputKind.USER_INPUT
        ]
        if len(specs) == len(flat):
            flat = [
                value
                for value, spec in zip(flat, specs, strict=True)
                if not isinstance(spec.arg, ConstantArgument)
            ]
    return _upstream.process_args(tuple(flat), {})


def to_tensor(value: ort.OrtValue) -> torch.Tensor:
    """Supports uint64, of which NumPy has two types, and float8, of which DLPack has none."""
    dtype = next(
        (each for each, number in _ONNX_TYPES.items() if number == value.element_type()), None
    )
    if dtype is not None and dtype.itemsize == 1:
        count = value.tensor_size_in_bytes()
        memory = (ctypes.c_uint8 * count).from_address(value.data_ptr()) if count else b""
        elements = torch.tensor(bytearray(memory), dtype=torch.uint8)
        return elements.view(dtype).reshape(value.shape())
    if value.data_type() == "tensor(uint64)":
        return torch.from_numpy(value.numpy().view("uint64"))
    return _upstream.from_ort_value(value)


def _to_ort_value(value: Any) -> ort.OrtValue:
    import numpy as np
    import onnxruntime as ort

    if isinstance(value, torch.Tensor):
        onnx_type = _ONNX_TYPES.get(value.dtype)
        if onnx_type is None:
            return ort.OrtValue.ortvalue_from_numpy(value.numpy(force=True))
        bits = torch.uint16 if value.dtype is torch.bfloat16 else torch.uint8
        return ort.OrtValue.ortvalue_from_numpy_with_onnx_type(
            value.contiguous().view(bits).numpy(force=True), onnx_element_type=onnx_type
        )
    dtype = np.float32 if isinstance(value, float) else None
    return ort.OrtValue.ortvalue_from_numpy(np.array(value, dtype=dtype))
