"""Functions of PyTorch that take plain numbers only, called with sizes while a program is recorded.

Their schemas have int where a size would be needed: ``torch.linspace(-1, 1, h)``,
``F.max_pool1d(x, x.size(2))``, ``torch.tensor([h, w])``. With a symbolic number they are computed
by operators that take sizes, in the same order of arithmetic as PyTorch's kernels; otherwise they
are the plain functions. A mode of this thread sees the calls: the functions stay PyTorch's own.
"""

from __future__ import annotations

import functools
import math
import threading
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

from onnx_native import _library, _replaced
from onnx_native.upstream import _upstream

NUMBERS = (torch.SymInt, torch.SymFloat, torch.SymBool)
# Those of tensors and parameters.
_PLAIN = (
    torch.Tensor.__torch_function__.__func__,  # type: ignore[attr-defined]
    torch.nn.Parameter.__torch_function__,
)


class Mode(TorchFunctionMode):
    """Computes the calls with sizes.

    Classes of tensors that override PyTorch's functions see the calls that get them, and modes of
    the caller see all.
    """

    def __init__(self) -> None:
        super().__init__()
        self._with_sizes = _with_sizes()

    def __torch_function__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        with_sizes = self._with_sizes.get(function)
        if with_sizes is not None and not (any(map(_overrides, types)) or _has_mode()):
            result = with_sizes(*args, **kwargs)
            if result is not None:
                return result
        return function(*args, **kwargs)


def replacements() -> list[tuple[Any, str, Callable[..., Any]]]:
    """Returns the functions that no mode sees, as (owner, name, function)."""
    return [
        (owner, name, function(getattr(owner, name)))
        for owner, name, function in (
            (torch.nn.RNNBase, "check_forward_args", _check_unless_packed),
            (torch.nn.LSTM, "check_forward_args", _check_unless_packed),
            (torch.nn.modules.transformer, "_detect_is_causal_mask", _detect_causal),
        )
    ]


def attention() -> list[tuple[Any, str, Callable[..., Any]]]:
    """Returns scaled_dot_product_attention that takes a condition on sizes, such as n > 1.

    PyTorch's reads its arguments before a mode sees the call.
    """
    plain = F.scaled_dot_product_attention
    thread = threading.get_ident()

    @functools.wraps(plain)
    def attend(
        query: Any,
        key: Any,
        value: Any,
        attn_mask: Any = None,
        dropout_p: float = 0.0,
        is_causal: Any = False,
        **kwargs: Any,
    ) -> Any:
        options = {"attn_mask": attn_mask, "dropout_p": dropout_p, "is_causal": bool(is_causal)}
        if threading.get_ident() != thread:
            return plain(query, key, value, **options, **kwargs)
        # Classes of tensors and modes that override functions ask whether it is PyTorch's.
        with _replaced.attributes([(F, "scaled_dot_product_attention", plain)]):
            return plain(query, key, value, **options, **kwargs)

    return [(F, "scaled_dot_product_attention", attend)]


@functools.cache
def _with_sizes() -> dict[Any, Callable[..., Any]]:
    """Functions of PyTorch, and those that compute the calls with sizes; None if they cannot."""
    return {
        _upstream.pad_packed_sequence: _pad_packed,
        torch.Tensor.new_tensor: _new_tensor,
        torch.as_tensor: _tensor,
        torch.tensor: _tensor,
        **{
            getattr(owner, name): _if_symbolic(function)
            for owner, functions in _FUNCTIONS
            for name, function in functions.items()
        },
    }


def _has_mode() -> bool:
    """Whether there is another mode that sees the functions. That of devices changes none."""
    mode = _upstream.current_mode()
    return mode is not None and not isinstance(mode, _upstream.DeviceContext)


def _overrides(kind: type) -> bool:
    """Whether a class of tensors sees the functions that get its tensors."""
    function = kind.__torch_function__  # type: ignore[attr-defined]
    return getattr(function, "__func__", function) not in _PLAIN


def _if_symbolic(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        leaves = _upstream.pytree.tree_leaves((args, kwargs))
        if any(isinstance(leaf, (torch.SymInt, torch.SymFloat)) for leaf in leaves):
            return function(*args, **kwargs)
        return None

    return call


def _check_unless_packed(plain: Callable[..., Any]) -> Callable[..., Any]:
    """The check of a recurrent network's arguments, which reads the sizes of a packed sequence."""

    @functools.wraps(plain)
    def check(self: Any, input: Any, hidden: Any, batch_sizes: Any) -> Any:
        is_recorded = _library.extension().is_recorded
        if batch_sizes is None or not is_recorded(batch_sizes):
            plain(self, input, hidden, batch_sizes)

    return check


def _pad_packed(
    data: Any, batch_sizes: Any, batch_first: bool, value: float, total_length: Any
) -> Any:
    """The padding of a packed sequence, to the length of the longest one for a symbolic number."""
    if not isinstance(total_length, torch.SymInt):
        return None
    text_of = _library.extension().text_of_size
    is_longest = text_of(total_length) == text_of(batch_sizes.shape[0])
    if not is_longest:
        return None
    return _upstream.pad_packed_sequence(data, batch_sizes, batch_first, value, 0)


def _detect_causal(plain: Callable[..., Any]) -> Callable[..., Any]:
    """The question of torch.nn.Transformer whether a mask is causal, which reads its elements. For
    one that the program computes the answer is no: attention then takes the mask as it is."""

    @functools.wraps(plain)
    def detect(mask: Any, is_causal: Any = None, size: Any = None) -> Any:
        if is_causal is None and mask is not None and _library.extension().is_recorded(mask):
            return False
        return plain(mask, is_causal, size)

    return detect


# Tensors of numbers.


def _tensor(data: Any, *, dtype: torch.dtype | None = None, **options: Any) -> Any:
    """torch.tensor or torch.as_tensor of symbolic numbers and of elements."""
    if isinstance(data, torch.Tensor) or not _holds_symbol(data):
        return None
    return _stacked(data, dtype or _dtype_of(_upstream.pytree.tree_leaves(data)))


def _new_tensor(
    self: torch.Tensor, data: Any, *, dtype: torch.dtype | None = None, **options: Any
) -> Any:
    if not _library.extension().is_recorded(self):
        return None
    dtype = self.dtype if dtype is None else dtype
    result = _tensor(data, dtype=dtype)
    return torch.tensor(data, dtype=dtype, **options) if result is None else result


def _holds_symbol(data: Any) -> bool:
    if isinstance(data, (list, tuple)):
        return any(map(_holds_symbol, data))
    return type(data) in NUMBERS or (
        isinstance(data, torch.Tensor) and _library.extension().is_recorded(data)
    )


def _dtype_of(leaves: list[Any]) -> torch.dtype:
    """The dtype of a tensor of these numbers and tensors."""
    symbolic = {torch.SymInt: torch.int64, torch.SymBool: torch.bool}
    symbolic[torch.SymFloat] = torch.get_default_dtype()
    dtypes = (
        leaf.dtype
        if isinstance(leaf, torch.Tensor)
        else symbolic.get(type(leaf)) or torch.as_tensor(leaf).dtype
        for leaf in leaves
    )
    return functools.reduce(torch.promote_types, dtypes)


def _stacked(data: Any, dtype: torch.dtype) -> torch.Tensor:
    if isinstance(data, (list, tuple)):
        return torch.stack([_stacked(item, dtype) for item in data])
    if isinstance(data, torch.Tensor):
        return data.reshape(()).to(dtype)
    return torch.scalar_tensor(data, dtype=dtype)


# Tensors with as many elements as a size says.


def _linspace(
    start: Any, end: Any, steps: Any, *, dtype: torch.dtype | None = None, **options: Any
) -> Any:
    """Computes like torch.linspace: from each end to the middle."""
    if options.pop("out", None) is not None:
        return None
    result = dtype or torch.get_default_dtype()
    if result.is_complex:
        return None
    computed = result if result.is_floating_point else torch.float64
    if not result.is_floating_point:
        start, end = map(_truncated, (start, end))
    index = torch.arange(steps, **options).to(computed)
    step = (end - start) / torch.sym_max(steps - 1, 1)
    is_lower = index < torch.sym_max(steps // 2, 1)
    return torch.where(is_lower, start + step * index, end - step * (steps - 1 - index)).to(result)


def _truncated(number: Any) -> Any:
    return math.trunc(number) if isinstance(number, (float, torch.SymFloat)) else number


def _logspace(
    start: Any,
    end: Any,
    steps: Any,
    base: float = 10.0,
    *,
    dtype: torch.dtype | None = None,
    **options: Any,
) -> Any:
    exponents = _linspace(start, end, steps, **options)
    return None if exponents is None else torch.pow(base, exponents).to(dtype or exponents.dtype)


def _window(shape: Callable[..., torch.Tensor]) -> Callable[..., Any]:
    """A window function. A window of one element is 1."""

    def window(
        window_length: Any,
        periodic: bool = True,
        *coefficients: float,
        dtype: torch.dtype | None = None,
        **options: Any,
    ) -> Any:
        dtype = dtype or torch.get_default_dtype()
        index = torch.arange(window_length, **options).to(dtype)
        last = window_length if periodic else torch.sym_max(window_length - 1, 1)
        is_alone = index < 1 - torch.sym_min(window_length - 1, 1)
        return torch.where(is_alone, 1, shape(index, last, *coefficients)).to(dtype)

    return window


def _hann(index: torch.Tensor, last: Any) -> torch.Tensor:
    return _hamming(index, last, 0.5, 0.5)


def _hamming(
    index: torch.Tensor, last: Any, alpha: float = 0.54, beta: float = 0.46
) -> torch.Tensor:
    return torch.cos(index * (2 * math.pi / last)) * -beta + alpha


def _blackman(index: torch.Tensor, last: Any) -> torch.Tensor:
    angle = index * (math.pi / last)
    return torch.cos(angle * 4) * 0.08 - torch.cos(angle * 2) * 0.5 + 0.42


def _triangle(index: torch.Tensor, last: Any) -> torch.Tensor:
    return 1 - (index * (2 / last) - 1).abs()


def _fftfreq(n: Any, d: float = 1.0, *, dtype: torch.dtype | None = None, **options: Any) -> Any:
    if options.pop("out", None) is not None:
        return None
    index = torch.arange(n, **options)
    index = torch.where(index < (n + 1) // 2, index, index - n)
    return index.to(dtype or torch.get_default_dtype()) * (1 / (n * d))


def _rfftfreq(n: Any, d: float = 1.0, *, dtype: torch.dtype | None = None, **options: Any) -> Any:
    if options.pop("out", None) is not None:
        return None
    index = torch.arange(n // 2 + 1, **options)
    return index.to(dtype or torch.get_default_dtype()) * (1 / (n * d))


def _indices(triangle: Callable[..., torch.Tensor]) -> Callable[..., Any]:
    """The rows and columns of a triangle's elements."""

    def indices(
        row: Any, col: Any, offset: Any = 0, *, dtype: torch.dtype = torch.int64, **options: Any
    ) -> Any:
        options.pop("layout", None)
        ones = torch.ones((row, col), dtype=torch.int32, **options)
        return triangle(ones, offset).nonzero().T.to(dtype)

    return indices


def _one_hot(tensor: torch.Tensor, num_classes: Any = -1) -> Any:
    return (tensor.unsqueeze(-1) == torch.arange(num_classes, device=tensor.device)).to(torch.int64)


# Pooling over whole axes.

# The options of poolings that follow the padding.
_OPTIONS = {
    "avg": ("ceil_mode", "count_include_pad", "divisor_override"),
    "max": ("dilation", "ceil_mode", "return_indices"),
}


def _pool(dims: int, name: str, reduce: Callable[..., torch.Tensor]) -> Callable[..., Any]:
    """A pooling whose window is as large as x along the axes where its size is symbolic."""
    names = _OPTIONS[name.partition("_")[0]]

    def pool(
        input: torch.Tensor,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        *args: Any,
        **options: Any,
    ) -> Any:
        sizes = _per_axis(kernel_size, dims)
        strides = sizes if stride is None or stride == [] else _per_axis(stride, dims)
        paddings = _per_axis(padding, dims)
        whole = [i for i, size in enumerate(sizes) if isinstance(size, torch.SymInt)]
        options.update(zip(names, args, strict=False))
        divisor = options.get("divisor_override")
        if not _means_the_same(options):
            return None
        for i in whole:
            if paddings[i] != 0 or sizes[i] != input.shape[i - dims]:
                return None
        of_window = reduce if divisor is None else torch.sum
        x = of_window(input, [i - dims for i in whole], keepdim=True)
        if len(whole) == dims:
            return x if divisor is None else x / divisor
        window = [[1 if i in whole else n for i, n in enumerate(each)] for each in (sizes, strides)]
        return getattr(F, name)(x, *window, paddings, **options)

    return pool


def _power_pool(dims: int) -> Callable[..., Any]:
    """A power-average pooling, whose body calls other poolings unseen by the mode."""
    largest = _pool(dims, f"max_pool{dims}d", torch.amax)
    mean = _pool(dims, f"avg_pool{dims}d", torch.mean)

    def pool(
        input: torch.Tensor,
        norm_type: float,
        kernel_size: Any,
        stride: Any = None,
        ceil_mode: bool = False,
    ) -> Any:
        if math.isinf(norm_type):
            sign = math.copysign(1, norm_type)
            x = largest(sign * input.abs(), kernel_size, stride, ceil_mode=ceil_mode)
            return None if x is None else sign * x
        x = mean(input.pow(norm_type), kernel_size, stride, ceil_mode=ceil_mode)
        if x is None:
            return None
        count = math.prod(_per_axis(kernel_size, dims))
        return (x.sign() * x.abs().relu()).mul(count).pow(1.0 / norm_type)

    return pool


def _unfold(tensor: torch.Tensor, dimension: int, size: Any, step: Any) -> Any:
    """Windows that do not overlap, which are views of the tensor."""
    text_of = _library.extension().text_of_size
    if not all(isinstance(each, torch.SymInt) for each in (size, step)) or tensor.dim() == 0:
        return None
    if text_of(size) != text_of(step):
        return None
    dimension %= tensor.dim()
    count = tensor.size(dimension) // size
    windows = tensor.narrow(dimension, 0, count * size).unflatten(dimension, (count, size))
    return windows.movedim(dimension + 1, -1)


def _means_the_same(options: dict[str, Any]) -> bool:
    """Whether the options change nothing for windows as large as the tensor."""
    dilation = options.get("dilation", 1)
    return not options.get("return_indices") and (
        dilation == 1 or (isinstance(dilation, Sequence) and all(n == 1 for n in dilation))
    )


def _per_axis(number: Any, dims: int) -> list[Any]:
    numbers = list(number) if isinstance(number, Sequence) else [number]
    return numbers * dims if len(numbers) == 1 else numbers


_FUNCTIONS: tuple[tuple[Any, dict[str, Callable[..., Any]]], ...] = (
    (
        torch,
        {
            "linspace": _linspace,
            "logspace": _logspace,
            "bartlett_window": _window(_triangle),
            "blackman_window": _window(_blackman),
            "hamming_window": _window(_hamming),
            "hann_window": _window(_hann),
            "tril_indices": _indices(torch.tril),
            "triu_indices": _indices(torch.triu),
        },
    ),
    (torch.fft, {"fftfreq": _fftfreq, "rfftfreq": _rfftfreq}),
    (torch.Tensor, {"unfold": _unfold}),
    (
        F,
        {
            "one_hot": _one_hot,
            **{f"avg_pool{n}d": _pool(n, f"avg_pool{n}d", torch.mean) for n in (1, 2, 3)},
            **{f"max_pool{n}d": _pool(n, f"max_pool{n}d", torch.amax) for n in (1, 2, 3)},
            **{f"lp_pool{n}d": _power_pool(n) for n in (1, 2, 3)},
        },
    ),
)
