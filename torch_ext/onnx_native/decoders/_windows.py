"""Sliding windows that count tokens: padding between tokens takes no room in them.

transformers pads prompts on the left, where no window reaches from a token over padding to another
token. onnxruntime-genai pads them on the right, so that padding is between a prompt and what is
generated after it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Any

import torch

# Whether masks that programs make with vmap are made by broadcasting, which decides by no size.
_broadcasts: ContextVar[bool] = ContextVar("onnx_native_broadcasts", default=False)


# Whether keys are buffers, longer than the mask of the tokens so far.
_has_buffers: ContextVar[bool] = ContextVar("onnx_native_has_buffers", default=False)


def broadcasting() -> contextlib.AbstractContextManager[None]:
    """Makes all masks by broadcasting; not every function of a program is right then."""
    return _true(_broadcasts)


def over_buffers() -> contextlib.AbstractContextManager[None]:
    """Makes masks as long as buffers, which are longer than the mask of the tokens so far."""
    return _true(_has_buffers)


@contextlib.contextmanager
def _true(variable: ContextVar[bool]) -> Iterator[None]:
    token = variable.set(True)
    try:
        yield
    finally:
        variable.reset(token)


def eager_mask(**arguments: Any) -> torch.Tensor | None:
    """Implements transformers' interface of mask functions for "eager" attention."""
    from transformers import masking_utils

    return masking_utils.eager_mask(**counting_tokens(arguments))


def counting_tokens(arguments: dict[str, Any]) -> dict[str, Any]:
    """Returns the arguments of a mask function, with a sliding window that counts tokens.

    Chunks of a chunked attention know their padding already. With vmap the mask may be any
    function, also one that is not about positions.
    """
    if _broadcasts.get():
        arguments = {**arguments, "use_vmap": False}
    padding, window = arguments.get("attention_mask"), arguments.get("local_size")
    chunk = getattr(arguments.get("config"), "attention_chunk_size", None)
    if padding is None or window is None or window == chunk or arguments.get("use_vmap"):
        return arguments
    if _has_buffers.get():
        more = arguments["kv_length"] - padding.shape[-1]
        padding = torch.nn.functional.pad(padding, (0, more))
    counts = padding.cumsum(-1)
    of_indices: Callable[..., torch.Tensor] = arguments["mask_function"]

    def of_counts(batch: Any, head: Any, query: Any, key: Any) -> torch.Tensor:
        return of_indices(batch, head, counts[batch, query], counts[batch, key])

    return {**arguments, "mask_function": of_counts}
