"""Runs a model, compares it with eager, and distinguishes rounding from faults."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx
import onnxruntime
import torch
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

# Relative and absolute tolerance.
TOLERANCES: dict[torch.dtype, tuple[float, float]] = {
    torch.float16: (5e-3, 5e-3),
    torch.bfloat16: (3e-2, 3e-2),
    torch.float32: (1e-4, 1e-5),
    torch.float64: (1e-7, 1e-8),
}

# The rounding error of one operator: a few units in the last place.
ROUNDING: dict[torch.dtype, float] = {
    torch.float16: 2**-9,
    torch.bfloat16: 2**-6,
    torch.float32: 2**-21,
    torch.float64: 2**-49,
    torch.complex64: 2**-21,
    torch.complex128: 2**-49,
}

SHORT = (torch.float16, torch.bfloat16)

# Operators that add many terms, so a small result may come from large terms.
ADDING = (
    *("sum", "mean", "mm", "matmul", "conv", "linear", "norm", "var", "std", "lstm", "gru"),
    *("rnn", "attention", "cumprod", "prod", "dot", "addmv", "addr", "bilinear", "pool"),
    *("upsample", "loss", "dist", "softmax", "fft", "lerp", "addc", "trapez", "logaddexp"),
)

# ONNX Runtime approximates these by a ratio of polynomials, or they are sums of 1 and a number near
# -1 (gelu): small results are as inexact as 1.
SATURATING = ("aten::sigmoid", "aten::silu", "aten::glu", "aten::gelu")


def session(content: bytes) -> onnxruntime.InferenceSession:
    """Loads the model without optimizations, with one thread."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.log_severity_level = 4
    return onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])


def real(tensor: torch.Tensor) -> torch.Tensor:
    """Returns a tensor in its ONNX form: complex tensors become real, with a last axis of 2."""
    tensor = tensor.detach()
    if tensor.is_complex():
        return torch.view_as_real(tensor.resolve_conj())
    return tensor.resolve_neg()


def ort_value(value: Any) -> onnxruntime.OrtValue:
    if not isinstance(value, torch.Tensor):
        return onnxruntime.OrtValue.ortvalue_from_numpy(np.array(value))
    tensor = real(value).contiguous()
    if tensor.dtype is torch.bfloat16:
        return onnxruntime.OrtValue.ortvalue_from_numpy_with_onnx_type(
            tensor.view(torch.uint16).numpy(), onnx.TensorProto.BFLOAT16
        )
    return onnxruntime.OrtValue.ortvalue_from_numpy(tensor.numpy())


def run(running: onnxruntime.InferenceSession, values: Sequence[Any]) -> list[torch.Tensor]:
    """Returns the model's results for these inputs, in order."""
    names = [argument.name for argument in running.get_inputs()]
    feeds = {name: ort_value(value) for name, value in zip(names, values, strict=True)}
    options = onnxruntime.RunOptions()
    options.log_severity_level = 4
    outputs = [output.name for output in running.get_outputs()]
    results = running.run_with_ort_values(outputs, feeds, options)
    return [
        torch.from_dlpack(result._ortvalue.to_dlpack()).clone()
        if result.data_type() == "tensor(bfloat16)"
        else _from_numpy(result.numpy())
        for result in results
    ]


def _from_numpy(array: np.ndarray) -> torch.Tensor:
    """Normalizes uint64: NumPy has two types for it, of which torch accepts one."""
    return torch.from_numpy(np.array(array.view(array.dtype.str)))


def leaves(results: Any) -> list[Any]:
    """Returns the tensors and numbers among the results."""
    return [leaf for leaf in pytree.tree_leaves(results) if leaf is not None]


def difference(got: torch.Tensor, want: Any) -> str:
    """Describes how a result differs from eager's; empty if it does not."""
    number = not isinstance(want, torch.Tensor)
    wanted = real(torch.as_tensor(want))
    if number and wanted.dtype.is_floating_point and got.dtype.is_floating_point:
        wanted = wanted.to(got.dtype)
    if got.dtype != wanted.dtype:
        return f"dtype {got.dtype} instead of {wanted.dtype}".replace("torch.", "")
    if got.shape != wanted.shape:
        return f"shape {list(got.shape)} instead of {list(wanted.shape)}"
    places = ~close(got, wanted)
    if not places.any():
        return ""
    return f"{got[places].flatten()[0].item()} instead of {wanted[places].flatten()[0].item()}"


def close(got: torch.Tensor, want: torch.Tensor) -> torch.Tensor:
    """Returns the elements in which two tensors of equal dtype and shape agree."""
    if not want.dtype.is_floating_point:
        return got == want
    rtol, atol = TOLERANCES[want.dtype]
    return torch.isclose(got.double(), want.double(), rtol=rtol, atol=atol, equal_nan=True)


class Rounding(TorchDispatchMode):
    """Rounds operators' results randomly, by as much as another implementation might.

    Multiples of 1/64 are not changed: small ones are exact everywhere, except for sums in 16 bits,
    where they are as frequent as other results.
    """

    def __init__(self, seed: int) -> None:
        super().__init__()
        self._generator = torch.Generator().manual_seed(seed)

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        name = func._schema.name
        returns = func._schema.returns
        is_fresh = all(each.alias_info is None for each in returns)
        adds = any(word in name for word in ADDING)
        if is_fresh and adds:
            args = pytree.tree_map_only(torch.Tensor, lambda x: self._rounded(x, 0.25), args)
        results = func(*args, **(kwargs or {}))
        if is_fresh and name in SATURATING:
            results = self._moved(results)
        if is_fresh:
            return pytree.tree_map_only(
                torch.Tensor, lambda x: self._rounded(x, is_sum=adds), results
            )
        if func._schema.is_mutable and isinstance(results, torch.Tensor):
            with contextlib.suppress(RuntimeError):  # expanded tensors share memory
                results.copy_(self._rounded(results))
        return results

    def _moved(self, value: torch.Tensor) -> torch.Tensor:
        noise = torch.rand(value.shape, generator=self._generator) * 2 - 1
        return (value + noise * ROUNDING.get(value.dtype, 0)).to(value.dtype)

    def _rounded(
        self, value: torch.Tensor, share: float = 1, *, is_sum: bool = False
    ) -> torch.Tensor:
        unit = ROUNDING.get(value.dtype)
        if unit is None or value.requires_grad:
            return value
        noise = torch.rand(value.shape, generator=self._generator) * 2 - 1
        moved = (value * (1 + noise * unit * share)).to(value.dtype)
        if value.is_complex() or share < 1 or (is_sum and value.dtype in SHORT):
            return moved
        return torch.where(value * 64 == (value * 64).round(), value, moved)


def is_rounding(got: torch.Tensor, want: Any, again: Callable[[int], Any], runs: int = 6) -> bool:
    """Returns whether eager's result moves as far if its operators round differently.

    Args:
        got: The model's result.
        want: Eager's.
        again: Returns eager's result with the rounding of a seed.
        runs: The number of seeds to try.
    """
    wanted = real(torch.as_tensor(want))
    if isinstance(want, float):
        got = got.to(wanted.dtype)
    if not _can_move(wanted) or got.dtype != wanted.dtype:
        return False
    excused = close(got, wanted) if got.shape == wanted.shape else torch.zeros((), dtype=torch.bool)
    moved = torch.zeros(wanted.shape, dtype=torch.float64)
    for seed in range(runs):
        try:
            other = real(torch.as_tensor(again(seed)))
        except Exception:
            continue
        if other.shape != wanted.shape:
            return True
        if got.shape != wanted.shape:
            continue
        if not wanted.dtype.is_floating_point:
            excused |= other != wanted
            continue
        distance = (other.double() - wanted.double()).abs()
        excused |= other.isfinite() != wanted.isfinite()
        excused |= other.isnan() != wanted.isnan()
        moved = torch.maximum(moved, distance.nan_to_num(0, 0, 0))
    if got.shape != wanted.shape:
        return False
    if wanted.dtype.is_floating_point:
        rtol, atol = TOLERANCES[wanted.dtype]
        apart = (got.double() - wanted.double()).abs()
        excused |= apart <= atol + rtol * wanted.double().abs() + 10 * moved
    return bool(excused.all())


def _can_move(value: torch.Tensor) -> bool:
    return value.dtype in TOLERANCES or value.dtype in (
        *(torch.bool, torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8),
    )
