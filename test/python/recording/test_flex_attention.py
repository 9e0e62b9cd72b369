"""Native capture of flex_attention and of operators that only say how to run their body."""

from __future__ import annotations

import collections
from typing import Any

import pytest
import torch
from models.calling import Calling
from models.recording import DYNAMIC, EXAMPLES, Function, X, assert_recorded
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

BIAS = torch.linspace(-1, 1, 40)


def heads(x: torch.Tensor) -> torch.Tensor:
    """Returns (batch, 2, n, 2) of (batch, n, 4)."""
    return x.unflatten(2, (2, 2)).transpose(1, 2)


def causal(batch: Any, head: Any, query: Any, key: Any) -> Any:
    return query >= key


def plain(x: torch.Tensor) -> Any:
    return flex_attention(heads(x), heads(x), heads(x) * 2)


def masked(x: torch.Tensor) -> Any:
    mask = create_block_mask(causal, None, None, x.shape[1], x.shape[1], device="cpu")
    return flex_attention(heads(x), heads(x), heads(x), block_mask=mask, scale=0.5)


def scored(x: torch.Tensor) -> Any:
    def score(value: Any, batch: Any, head: Any, query: Any, key: Any) -> Any:
        return value * 2 + BIAS[query] * (head + 1) - key

    return flex_attention(heads(x), heads(x), heads(x), score_mod=score)


def shared_keys_with_statistics(x: torch.Tensor) -> Any:
    keys = heads(x)[:, :1]
    return flex_attention(heads(x), keys, keys, enable_gqa=True, return_lse=True)


def same_state_and_output(x: torch.Tensor) -> Any:
    def combine(carry: torch.Tensor, row: torch.Tensor) -> Any:
        following = carry + row
        return [following, following]

    start = [torch.zeros_like(x[0, 0])]
    return torch.ops.higher_order.scan(combine, start, [x[0]], additional_inputs=())


def keys_for_the_whole_batch(x: torch.Tensor) -> Any:
    mask = create_block_mask(causal, x.shape[0], None, x.shape[1], x.shape[1], device="cpu")
    keys = heads(x)[:1]
    return flex_attention(heads(x), keys, keys, block_mask=mask)


FUNCTIONS: list[Function] = [
    plain,
    masked,
    scored,
    shared_keys_with_statistics,
    same_state_and_output,
]


@torch.no_grad()
def test_keys_for_the_whole_batch() -> None:
    assert_recorded(Calling(keys_for_the_whole_batch), (({1: "n"},),), (X,), (X[:, :3],))


@torch.no_grad()
@pytest.mark.parametrize("function", FUNCTIONS)
def test_recorded(function: Function) -> None:
    function(X)
    assert_recorded(Calling(function), (DYNAMIC,), *EXAMPLES)


def test_no_scores_are_computed_twice() -> None:
    program = torch.onnx.export(
        Calling(masked), (X,), dynamic_shapes=(DYNAMIC,), opset_version=23, verbose=False
    )
    assert program is not None
    counts = collections.Counter(node.op_type for node in program.model.graph)
    assert counts["Attention"] == 1
    assert not counts.keys() & {"MatMul", "Softmax"}
