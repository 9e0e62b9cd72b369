"""Rows of csrc/ops/nn/attention.cpp."""

from typing import Any

import torch

from ops.row import Case, Row, bools, floats

aten = torch.ops.aten
Q, K, V = floats(2, 4, 3, 8), floats(2, 4, 5, 8, seed=1), floats(2, 4, 5, 6, seed=2)
MASK = bools(3, 5)
MASK[1] = False
FLOAT_MASK = torch.where(MASK, floats(3, 5), -torch.inf)


def attention(*tensors: torch.Tensor, **options: Any) -> Case:
    return Case(lambda *inputs: aten.scaled_dot_product_attention(*inputs, **options), *tensors)


def math(*tensors: torch.Tensor, **options: Any) -> Case:
    return Case(
        lambda *inputs: aten._scaled_dot_product_attention_math(*inputs, **options), *tensors
    )


def flash(*mask: torch.Tensor, **options: Any) -> Case:
    return Case(
        lambda q, k, v, *m: aten._scaled_dot_product_flash_attention_for_cpu(
            q, k, v, **options, **({"attn_mask": m[0]} if m else {})
        ),
        Q,
        K,
        floats(2, 4, 5, 8, seed=2),
        *mask,
    )


ROWS = [
    Row(
        "aten::scaled_dot_product_attention",
        opinfo="nn.functional.scaled_dot_product_attention",
        # Other samples use dropout.
        pick=lambda samples: [s for s in samples if not s.kwargs.get("dropout_p")][::5],
        cases=(
            attention(Q, K, V, MASK),
            attention(Q, K, V, FLOAT_MASK),
            attention(Q, K, V, MASK.expand(2, 1, 3, 5)),
            attention(Q, K, V, is_causal=True),
            attention(Q, K, V, scale=0.5),
            attention(Q[0], K[0], V[0], MASK),
            attention(Q, K[:, :2], V[:, :2], enable_gqa=True),
            attention(Q, K[:, :2], V[:, :2], MASK.expand(2, 4, 3, 5), enable_gqa=True),
            attention(Q, K[:, :2], V[:, :2], MASK.expand(2, 1, 3, 5), enable_gqa=True),
        ),
    ),
    Row(
        "aten::_scaled_dot_product_attention_math",
        cases=(
            math(Q, K, V),
            math(Q, K, V, MASK),
            math(Q, K, V, FLOAT_MASK),
            math(Q, K, V, is_causal=True, scale=0.5),
            math(Q, K[:, :2], V[:, :2], enable_gqa=True),
        ),
    ),
    Row(
        "aten::_scaled_dot_product_flash_attention_for_cpu",
        cases=(flash(), flash(is_causal=True), flash(floats(3, 5)), flash(scale=0.25)),
    ),
]
