"""Rows of csrc/ops/nn/transformer.cpp."""

from typing import Any

import torch

from ops.row import Case, Row, bools, floats

aten = torch.ops.aten
X = floats(2, 5, 8)
QKV = floats(24, 8, seed=1), floats(24, seed=2)
OUT = floats(8, 8, seed=3), floats(8, seed=4)
NORMS = tuple(floats(8, seed=seed) for seed in range(5, 9))
FEED = floats(12, 8, seed=9), floats(12, seed=10), floats(8, 12, seed=11), floats(8, seed=12)
PADDING = torch.tensor([[False, False, True, False, True], [False, True, True, True, True]])


def attention(*arguments: Any) -> Case:
    return Case(
        lambda x: aten._native_multi_head_attention(x, x, x, 8, 2, *QKV, *OUT, *arguments), X
    )


def layer(use_gelu: bool, norm_first: bool, *arguments: Any) -> Case:
    return Case(
        lambda x: aten._transformer_encoder_layer_fwd(
            x, 8, 2, *QKV, *OUT, use_gelu, norm_first, 1e-5, *NORMS, *FEED, *arguments
        ),
        X,
    )


ROWS = [
    Row(
        "aten::_native_multi_head_attention",
        cases=(
            attention(),
            attention(torch.eye(5) < bools(5, 5).float(), True, False, 0),
            attention(PADDING, True, True, 1),
            attention(torch.zeros(2, 5).masked_fill(PADDING, -torch.inf), True, True, 1),
        ),
        tolerance={"float32": (1e-4, 1e-4)},
    ),
    Row(
        "aten::_transformer_encoder_layer_fwd",
        cases=(
            layer(False, False),
            layer(True, True),
            layer(True, False, PADDING, 1),
        ),
        tolerance={"float32": (1e-4, 1e-4)},
    ),
]
