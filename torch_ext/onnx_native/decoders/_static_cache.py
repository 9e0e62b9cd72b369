"""Caches of a fixed length, into which ONNX's TensorScatter writes: past and present may be one."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch

from onnx_native.decoders import _buffers, _windows
from onnx_native.lowerings._lowerings import lowering

_OPERATOR = "onnx_native::write_to_cache"
OPSET = 24  # the first one with TensorScatter


@functools.cache
def operator() -> Any:
    """Registers the operator and its lowering, and returns it.

    Its arguments are a buffer `[batch, heads, room, size]`, what is written to it,
    `[batch, heads, length, size]`, and the place of its first element. It returns the new buffer.
    """

    @torch.library.custom_op(_OPERATOR, mutates_args=())
    def write(buffer: torch.Tensor, new: torch.Tensor, start: int) -> torch.Tensor:
        return buffer.slice_scatter(new, 2, start, start + new.shape[2])

    @write.register_fake
    def _(buffer, new, start):  # type: ignore[no-untyped-def]
        return torch.empty_like(buffer)

    @lowering(_OPERATOR)
    def _(b, buffer, new, start):  # type: ignore[no-untyped-def]
        batch = b.op("Reshape", b.size(buffer, 0), [1])
        places = b.op("Expand", b.op("Reshape", start, [1]), batch)
        return b.op("TensorScatter", buffer, new, places, axis=2, mode="linear")

    return torch.ops.onnx_native.write_to_cache.default


@functools.cache
def _layer() -> Any:
    class StaticLayer(_buffers.layer()):  # type: ignore[misc]
        """A layer that sees its whole buffers; masks hide what does not count."""

        keys: torch.Tensor
        values: torch.Tensor

        def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
            return self.keys.shape[2], 0

        def update(
            self, key_states: torch.Tensor, value_states: torch.Tensor, *_: Any, **__: Any
        ) -> tuple[torch.Tensor, torch.Tensor]:
            self.keys = operator()(self.keys, key_states, self.past)
            self.values = operator()(self.values, value_states, self.past)
            return self.keys, self.values

    return StaticLayer


@contextmanager
def cache(layers: Sequence[tuple[torch.Tensor, torch.Tensor]], past: Any) -> Iterator[Any]:
    """Yields a cache over buffers, whose first `past` elements count, for one step."""
    from transformers.cache_utils import Cache

    with _windows.over_buffers():
        yield Cache(layers=[_layer()(*layer, past) for layer in layers])
