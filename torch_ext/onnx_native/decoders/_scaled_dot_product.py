"""transformers' attention as one call of scaled_dot_product_attention, the same for all sizes."""

from __future__ import annotations

from typing import Any

import torch

from onnx_native.decoders import _windows


def attention(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    is_causal: bool | None = None,
    position_bias: torch.Tensor | None = None,
    **others: Any,
) -> tuple[torch.Tensor, None]:
    """Implements transformers' interface of attention functions.

    A causal attention without a mask and a limit of the scores are left to transformers' own.
    """
    from transformers.integrations import sdpa_attention

    if is_causal is None:
        is_causal = getattr(module, "is_causal", True)
    if (attention_mask is None and is_causal) or others.get("softcap") is not None:
        return sdpa_attention.sdpa_attention_forward(
            module,
            query,
            key,
            value,
            attention_mask,
            dropout=dropout,
            scaling=scaling,
            is_causal=is_causal,
            position_bias=position_bias,
            **others,
        )
    if position_bias is not None:
        attention_mask = sdpa_attention.create_position_bias_mask(
            position_bias, attention_mask, False, query, key
        )
    output = torch.nn.functional.scaled_dot_product_attention(
        query,
        key,
        value,
        attn_mask=attention_mask,
        dropout_p=dropout,
        scale=scaling,
        enable_gqa=query.shape[1] != key.shape[1],
    )
    return output.transpose(1, 2).contiguous(), None


def mask(**arguments: Any) -> torch.Tensor | None:
    """Implements transformers' interface of mask functions: no mask is left out by its elements."""
    from transformers.masking_utils import sdpa_mask

    counting = _windows.counting_tokens(arguments)
    skips = {"allow_is_causal_skip": False}
    if arguments.get("attention_mask") is not None:
        skips["allow_is_bidirectional_skip"] = False
    return sdpa_mask(**{**counting, **skips})
