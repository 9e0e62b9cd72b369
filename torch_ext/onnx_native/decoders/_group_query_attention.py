"""ONNX Runtime's GroupQueryAttention: past and present may be the same buffer.

The decoders that `_decoder` exports for ONNX Runtime call it in place of the concatenation of past
and new keys and the attention over them.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import torch

from onnx_native.decoders import _buffers, _windows
from onnx_native.lowerings._lowerings import lowering

# The kernel of the CUDA provider takes no bias of the scores.
TARGETS = ("onnxruntime-cpu", "onnxruntime-webgpu")
_OPERATOR = "onnx_native::group_query_attention"

Layers = list[tuple[torch.Tensor, torch.Tensor]]  # the keys and values of each layer


class UnsupportedError(ValueError):
    """The attention of a model is another one."""


# The layers of the running step by the identity of the keys that they have passed on.
_waiting: ContextVar[dict[int, Any]] = ContextVar("onnx_native_waiting")


@functools.cache
def operator() -> Any:
    """Registers the operator and its lowering, and returns it.

    Its arguments are queries, keys and values `[batch, heads, sequence, size]`, keys and values of
    the past, `[batch, heads, length, size]`, and the bias of the scores
    `[batch, 1, sequence, total]`, where `total` is the number of elements of past and present. The
    past may have more elements than `total - sequence`; the new ones follow those that count. A
    sink, `[heads]`, is the score of a key without a value. With a `window`, the past keeps the last
    elements, at least as many as the window has, see `_kept`.

    The results are the attention, `[batch, sequence, heads * size]`, and past and present together.
    """

    @torch.library.custom_op(_OPERATOR, mutates_args=())
    def attend(
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        past_key: torch.Tensor,
        past_value: torch.Tensor,
        bias: torch.Tensor,
        sink: torch.Tensor | None,
        scale: float,
        softcap: float,
        window: int,
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        length, room = query.shape[2], past_key.shape[2]
        before = _kept(bias.shape[3] - length, room, window)
        total = before + length
        kept = _kept(bias.shape[3], room, window)

        def extended(past: torch.Tensor, new: torch.Tensor) -> torch.Tensor:
            return torch.cat([past[:, :, :before], new], 2)

        def present(past: torch.Tensor, all_: torch.Tensor) -> torch.Tensor:
            return torch.cat([all_[:, :, total - kept :], past[:, :, kept:]], 2)

        keys, values = extended(past_key, key), extended(past_value, value)
        groups = query.shape[1] // key.shape[1]
        scores = query @ keys.repeat_interleave(groups, 1).mT * scale
        if softcap:
            scores = torch.tanh(scores / softcap) * softcap
        scores = scores + bias[..., bias.shape[3] - total :]
        if sink is not None:
            sinks = sink[:, None, None].expand(*scores.shape[:3], 1)
            scores = torch.cat([scores, sinks.to(scores.dtype)], 3)
        weights = torch.softmax(scores, -1)[..., :total]
        output = weights @ values.repeat_interleave(groups, 1)
        results = present(past_key, keys), present(past_value, values)
        return output.transpose(1, 2).flatten(2), *results

    @attend.register_fake
    def _(query, key, value, past_key, past_value, bias, sink, scale, softcap, window):  # type: ignore[no-untyped-def]
        batch, heads, length, size = query.shape
        total = past_key.shape[2]
        if not window:
            total = torch.sym_max(total, bias.shape[3])
        shape = (batch, key.shape[1], total)
        return (
            query.new_empty(batch, length, heads * size),
            key.new_empty(*shape, key.shape[3]),
            value.new_empty(*shape, value.shape[3]),
        )

    @lowering(_OPERATOR)
    def _(b, query, key, value, past_key, past_value, bias, sink, scale, softcap, window):  # type: ignore[no-untyped-def]
        def joined(x: Any) -> Any:
            return b.op("Reshape", b.op("Transpose", x, perm=[0, 2, 1, 3]), [0, 0, -1])

        total = b.cast(b.size(bias, 3), torch.int32)
        batch = b.op("Reshape", b.size(query, 0), [1])
        last = b.op("Expand", b.op("Sub", total, 1), batch)
        return b.op(
            "GroupQueryAttention",
            joined(query),
            joined(key),
            joined(value),
            past_key,
            past_value,
            last,
            total,
            None,
            None,
            None,
            bias,
            sink,
            num_heads=query.shape[1],
            kv_num_heads=key.shape[1],
            scale=scale,
            softcap=softcap,
            **({"local_window_size": window, "sliding_window_cache": 1} if window else {}),
            domain="com.microsoft",
            domain_version=1,
            outputs=3,
        )

    return torch.ops.onnx_native.group_query_attention.default


def is_supported(layers: Layers) -> bool:
    """Returns whether ONNX Runtime's operator takes heads of these sizes."""
    return all(key.shape[3] == value.shape[3] and key.shape[3] % 8 == 0 for key, value in layers)


def _kept(total: int, room: int, window: int) -> int:
    """Returns how many of the last elements a buffer with this room has, out of all so far.

    Those of a window fill their buffer; then ONNX Runtime drops all but the window.
    """
    if not window or total <= room:
        return total
    return window + (total - room - 1) % (room - window + 1)


@functools.cache
def _layer() -> Any:
    class GroupedLayer(_buffers.layer()):  # type: ignore[misc]
        """A layer that leaves it to the attention to extend its keys and values."""

        def __init__(
            self, keys: torch.Tensor, values: torch.Tensor, past: Any, window: int
        ) -> None:
            super().__init__(keys, values, past)
            self.window = window
            self.sliding_window: int | None = None  # that of the module
            self.new: torch.Tensor | None = None
            self.is_extended = False

        def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
            return self.past + query_length, 0

        def update(
            self, key_states: torch.Tensor, value_states: torch.Tensor, *_: Any, **__: Any
        ) -> tuple[torch.Tensor, torch.Tensor]:
            self.new = key_states
            _waiting.get()[id(key_states)] = self
            return key_states, value_states

    return GroupedLayer


@contextmanager
def cache(layers: Layers, past: Any, windows: Sequence[int] = ()) -> Iterator[Any]:
    """Yields a cache over buffers, whose first `past` elements count, for one step.

    Args:
        layers: The buffers.
        past: The number of elements before the step.
        windows: The sliding window of each layer, for buffers that keep no more; 0: there is none.

    Raises:
        UnsupportedError: The step has not called `attention` for a layer.
    """
    from transformers.cache_utils import Cache

    sizes = windows or [0] * len(layers)
    made = [_layer()(*layer, past, size) for layer, size in zip(layers, sizes, strict=True)]
    token = _waiting.set({})
    try:
        yield Cache(layers=made)
    finally:
        _waiting.reset(token)
    for i, layer in enumerate(made):
        if not layer.is_extended:
            raise UnsupportedError(
                f"the attention of layer {i} does not go through transformers' attention functions"
            )


def attention(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    softcap: float | None = None,
    **others: Any,
) -> tuple[torch.Tensor, None]:
    """Implements transformers' interface of attention functions with a layer of `cache`.

    Raises:
        UnsupportedError: It is an attention of another form.
    """
    layer = _waiting.get().pop(id(key), None)
    is_unknown = others.get("position_bias") is not None
    is_causal = others.get("is_causal")
    if is_causal is None:
        is_causal = getattr(module, "is_causal", True)
    if (
        layer is None
        or layer.new is not key
        or attention_mask is None
        or is_unknown
        or not is_causal
    ):
        raise UnsupportedError(f"the attention of {type(module).__name__} has another form")
    output, layer.keys, layer.values = operator()(
        query,
        key,
        value,
        layer.keys,
        layer.values,
        attention_mask,
        others.get("s_aux"),
        query.shape[3] ** -0.5 if scaling is None else scaling,
        softcap or 0.0,
        layer.window,
    )
    layer.is_extended, layer.sliding_window = True, others.get("sliding_window")
    return output.unflatten(2, (query.shape[1], query.shape[3])), None


def mask(*, dtype: torch.dtype = torch.float32, **arguments: Any) -> torch.Tensor | None:
    """Implements transformers' interface of mask functions: a mask is a bias of the scores."""
    from transformers.masking_utils import sdpa_mask

    counting = _windows.counting_tokens(arguments)
    visible = sdpa_mask(**{**counting, "allow_is_causal_skip": False})
    if visible is None:
        return None
    # Not infinity: a position that sees nothing would become NaN.
    return torch.where(visible, 0.0, torch.finfo(dtype).min).to(dtype)
