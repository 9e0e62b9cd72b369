"""Runs a model, compares it with eager, and distinguishes rounding from faults."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx
import onnxruntime
import torch
import torch._decomp
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
    "cosine",
)

# Operators whose results are hardly ever numbers of few bits; in 16 bits they may round to one.
IRRATIONAL = (
    *("exp", "log", "sin", "cos", "tan", "sigmoid", "softplus", "elu", "silu", "mish", "erf"),
    *("pow", "sqrt", "softmin", "gamma", "bessel", "hypot", "norm", "hardswish", "hardsigmoid"),
)

# ONNX Runtime approximates these by a ratio of polynomials, or they are sums of 1 and a number near
# -1 (gelu): small results are as inexact as 1.
SATURATING = ("aten::sigmoid", "aten::silu", "aten::glu", "aten::gelu")

# The gates of these are sigmoids.
GATED = ("lstm", "gru", "rnn")


def session(content: bytes, *, optimized: bool = False) -> onnxruntime.InferenceSession:
    """Loads the model with default optimizations or none, with one thread."""
    options = onnxruntime.SessionOptions()
    if not optimized:
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

    - Numbers of few significant bits are exact everywhere, unless they are sums of others, or
      results of irrational functions in 16 bits.
    - The error of a sum is relative to its terms, that of a transform to its input's norm.
    - Normalizations round their means, too. One of the seeds rounds the exact results instead.
    - Half of the seeds round equal results to equal ones. A quarter leaves half of the results as
      they are: what is 0 in eager may be 0 in some places only.
    - ONNX Runtime computes in 32 bits where eager rounds to 16 between operators: each use of such
      a number may see another value, and what overflows in 16 bits may be finite.
    - A write whose operand overlaps the written tensor depends on the order of the elements: half
      of the seeds copy the operand.
    """

    def __init__(self, seed: int) -> None:
        super().__init__()
        self._generator = torch.Generator().manual_seed(seed)
        self._is_exact = seed == 0
        self._overflows = seed % 2 == 0
        self._copies = seed % 2 == 1
        self._is_consistent = seed % 4 > 1
        self._is_sparse = seed % 8 in (4, 5)
        self._frequency = 1000.0 + seed

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        name = func._schema.name
        is_fresh = all(each.alias_info is None for each in func._schema.returns)
        adds = any(word in name for word in ADDING)
        # Attention has the tag for its dropout.
        is_random = torch.Tag.nondeterministic_seeded in func.tags and "attention" not in name
        if self._is_exact and is_fresh and not is_random:
            with contextlib.suppress(RuntimeError):
                return _exactly(func, args, kwargs, is_sum=adds)
        if func in _NORMALIZATIONS:
            with self:
                return _NORMALIZATIONS[func](*args, **kwargs)
        unit = self._unit(args)
        if is_fresh:
            args, kwargs = pytree.tree_map_only(
                torch.Tensor, lambda x: self._argument(x, unit, adds), (args, kwargs)
            )
        elif func._schema.is_mutable and self._copies:
            args = tuple(
                value if each.alias_info else pytree.tree_map_only(torch.Tensor, torch.clone, value)
                for value, each in zip(args, func._schema.arguments, strict=False)
            )
        results = func(*args, **kwargs)
        if is_fresh and "::_fft" in name:
            scale = torch.linalg.vector_norm(args[0], dim=args[1], keepdim=True)
            return self._moved(results, scale)
        if name.removesuffix("_") in SATURATING:
            moved = self._moved(results)
            if not moved.is_complex():  # sigmoid is at most 1
                moved = torch.where(results <= 1, moved.clamp(max=1), moved)
            results = moved if is_fresh else results.copy_(moved)
        if any(word in name for word in GATED):
            results = pytree.tree_map_only(torch.Tensor, self._moved, results)
        if is_fresh:
            return pytree.tree_map_only(
                torch.Tensor, lambda x: self._result(x, name, unit, adds), results
            )
        if func._schema.is_mutable and isinstance(results, torch.Tensor):
            with contextlib.suppress(RuntimeError):  # expanded tensors share memory
                results.copy_(self._result(results, name, unit, False))
        return results

    @staticmethod
    def _unit(args: Any) -> float:
        """Returns the rounding error of the 16-bit floats among an operator's arguments."""
        tensors = [each for each in pytree.tree_leaves(args) if isinstance(each, torch.Tensor)]
        return max((ROUNDING[each.dtype] for each in tensors if each.dtype in SHORT), default=0)

    def _argument(self, value: torch.Tensor, unit: float, adds: bool) -> torch.Tensor:
        """Rounds one of an operator's tensors before it computes."""
        if adds:
            value = self._rounded(value, 0.25, is_sum=True)
        if unit and value.is_floating_point():
            return self._rounded(value, unit / ROUNDING[value.dtype])
        return value

    def _result(self, value: torch.Tensor, name: str, unit: float, adds: bool) -> torch.Tensor:
        """Rounds one of an operator's results."""
        if value.is_complex() and any(word in name for word in ("div", "pow", "reciprocal")):
            return self._moved(value, value.abs())
        share = max(unit / ROUNDING[value.dtype], 1) if value.is_floating_point() else 1
        is_irrational = unit > 0 and any(word in name for word in IRRATIONAL)
        return self._rounded(value, share, is_sum=adds or is_irrational)

    def _noise(self, value: torch.Tensor) -> torch.Tensor:
        if self._is_consistent:
            return (value.real.double() * self._frequency).sin().nan_to_num(0)
        noise = torch.rand(value.shape, generator=self._generator, dtype=torch.float64) * 2 - 1
        if self._is_sparse:
            noise *= torch.rand(value.shape, generator=self._generator) < 0.5
        return noise

    def _moved(self, value: torch.Tensor, scale: torch.Tensor | float = 1) -> torch.Tensor:
        """Adds an error that is relative to a scale instead of the value."""
        unit = ROUNDING.get(value.dtype, 0)
        if value.is_complex():
            noise = torch.complex(self._noise(value), self._noise(value))
        else:
            noise = self._noise(value)
        return (value + noise * unit * scale).to(value.dtype)

    def _rounded(
        self, value: torch.Tensor, share: float = 1, *, is_sum: bool = False
    ) -> torch.Tensor:
        unit = ROUNDING.get(value.dtype)
        if unit is None:
            return value
        value = value.detach()
        if value.is_complex():
            parts = torch.view_as_real(value.resolve_conj())
            return torch.view_as_complex(self._rounded(parts, share, is_sum=True).contiguous())
        moved = (value * (1 + self._noise(value) * unit * share)).to(value.dtype)
        if value.dtype is torch.float16 and not self._overflows:
            moved = torch.where(value.isinf(), value.nan_to_num(), moved)
        bits = _HALF_BITS[value.dtype if share <= 1 else torch.bfloat16]
        return moved if is_sum else torch.where(_is_short(value, bits), value, moved)


def _exactly(func: Any, args: Any, kwargs: dict[str, Any], *, is_sum: bool) -> Any:
    """Returns an operator's results, computed in float64; what rounding leaves of a sum is 0."""

    kernel = _NORMALIZATIONS.get(func, func)  # eager's leaves noise of x - mean(x)

    def computed(change: Callable[[torch.Tensor], torch.Tensor]) -> list[Any]:
        changed = pytree.tree_map_only(
            torch.Tensor, lambda x: change(x) if x.is_floating_point() else x, (args, kwargs)
        )
        return pytree.tree_leaves(kernel(*changed[0], **changed[1]))

    def rounded(exact: Any, scale: Any, result: Any) -> Any:
        if not isinstance(result, torch.Tensor) or not result.is_floating_point():
            return exact
        is_rest = exact.abs() <= scale.abs() * ROUNDING[result.dtype]
        if exact.dtype is result.dtype:  # rounds what float64 adds to exact numbers
            mantissa, exponent = torch.frexp(exact)
            exact = torch.ldexp((mantissa * 2**45).round() * 2**-45, exponent)
        return torch.where(is_rest & is_sum, 0, exact).to(result.dtype)

    results, spec = pytree.tree_flatten(func(*args, **kwargs))
    exact = computed(torch.Tensor.double)
    scales = computed(lambda x: x.double().abs())
    return spec.unflatten(map(rounded, exact, scales, results))


def _is_short(value: torch.Tensor, bits: int) -> torch.Tensor:
    """Returns which elements use at most this number of significant bits."""
    mantissa, _ = torch.frexp(value.float() if value.dtype in SHORT else value)
    scaled = mantissa * 2**bits
    return scaled == scaled.round()


# Half of the significant bits.
_HALF_BITS = {torch.float16: 5, torch.bfloat16: 4, torch.float32: 12, torch.float64: 26}

_NORMALIZATIONS = torch._decomp.get_decompositions(
    [
        torch.ops.aten.native_layer_norm,
        torch.ops.aten.native_group_norm,
        torch.ops.aten.native_batch_norm,
        torch.ops.aten._native_batch_norm_legit,
    ]
)


def is_rounding(got: torch.Tensor, want: Any, again: Callable[[int], Any], runs: int = 40) -> bool:
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
        if wanted.dtype.is_floating_point:
            rtol, atol = TOLERANCES[wanted.dtype]
            distance = (other.double() - wanted.double()).abs()
            moved = torch.maximum(moved, distance.nan_to_num(0, 0, 0))
            excused |= other.isfinite() != wanted.isfinite()
            excused |= other.isnan() != wanted.isnan()
            apart = (got.double() - wanted.double()).abs()
            excused |= apart <= atol + rtol * wanted.double().abs() + 10 * moved
        else:
            excused |= other != wanted
        if excused.all():
            return True
    return False


def may_fail(again: Callable[[int], Any], runs: int = 40) -> bool:
    """Returns whether eager fails if its operators round differently."""
    for seed in range(runs):
        try:
            again(seed)
        except Exception:
            return True
    return False


def _can_move(value: torch.Tensor) -> bool:
    return value.dtype in TOLERANCES or value.dtype in (
        *(torch.bool, torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8),
    )
