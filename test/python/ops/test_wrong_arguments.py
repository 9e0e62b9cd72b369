"""Calls that PyTorch refuses for elements, or accepts: the lowering refuses them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import onnx_native
import pytest
import torch
from onnx_native import _C
from torch import Tensor

INDICES, OFFSETS = torch.tensor([1, 2, 3]), torch.tensor([0, 2])


def bags(table: Tensor, indices: Tensor, offsets: Tensor):
    return torch.embedding_bag(table, indices, offsets)[0]


def bags_of_no_mode(table: Tensor, indices: Tensor, offsets: Tensor):
    return torch.embedding_bag(table, indices, offsets, False, 99)[0]


def weighted_means(table: Tensor, indices: Tensor, offsets: Tensor):
    ones = torch.ones(3)
    return torch.embedding_bag(table, indices, offsets, False, 1, False, ones)[0]


def strides_beyond_the_memory(x: Tensor):
    return torch.as_strided(x, [2, 2], [1, 99], 2)


def a_write_beyond_the_memory(x: Tensor):
    return torch.as_strided_scatter(x, torch.ones(2, 2), [2, 2], [1, 99], 2)


def a_range_without_numbers(x: Tensor):
    return torch.fake_quantize_per_tensor_affine(x, 0.1, 0, 9, 1)


def observed(x: Tensor, low: Tensor, high: Tensor, scale: Tensor):
    on, zero = torch.ones(1, dtype=torch.int64), torch.zeros(1, dtype=torch.int32)
    return torch.ops.aten._fused_moving_avg_obs_fq_helper_functional(
        x, on, on, low, high, scale, zero, 0.01, 0, 255, -1
    )[0]


def windows(x: Tensor, samples: Tensor):
    return torch.ops.aten.fractional_max_pool3d(x, [2, 0, 2], [3, 2, 2], samples)[0]


def segments(x: Tensor, lengths: Tensor):
    """PyTorch's kernel reads beyond the lengths: the process may end with SIGSEGV."""
    return torch.segment_reduce(x, "sum", lengths=lengths, axis=1, unsafe=True)


ONE, TWO, TABLE = torch.ones(1), torch.ones(2), torch.ones(5, 3)


@pytest.mark.parametrize(
    ("function", "inputs", "cause"),
    [
        (bags_of_no_mode, (TABLE, INDICES, OFFSETS), "modes 0 .*got 99"),
        (bags, (TABLE[None], INDICES, OFFSETS), "2-D table, got 3-D"),
        (bags, (TABLE, INDICES[None], OFFSETS), "got 2-D and 1-D"),
        (bags, (TABLE, INDICES, OFFSETS[None]), "got 1-D and 2-D"),
        (weighted_means, (TABLE, INDICES, OFFSETS), "per_sample_weights only for mode 0"),
        (strides_beyond_the_memory, (TABLE,), "element 102 of a tensor of 15 elements"),
        (a_write_beyond_the_memory, (TABLE,), "element 102 of a tensor of 15 elements"),
        (a_range_without_numbers, (TABLE,), "at most quant_max, got 9 and 1"),
        (observed, (TABLE, TWO, ONE, ONE), "must have 1 elements, got 2"),
        (observed, (TABLE, ONE, ONE, TWO), "must have 1 elements, got 2"),
        (windows, (torch.ones(2, 3, 5, 6, 7), torch.ones(2, 3, 3)), "positive sizes, got 0 and 2"),
        (segments, (torch.ones(4, 3), torch.ones(0, 2).long()), "got 0 rows of segments and 4"),
    ],
)
def test_the_lowering_refuses(
    function: Callable[..., Any], inputs: tuple[Tensor, ...], cause: str
) -> None:
    described = [
        _C.ScriptInput.tensor(f"x{i}", x.dtype, list(x.shape)) for i, x in enumerate(inputs)
    ]
    with pytest.raises(onnx_native.ExportError, match=cause) as caught:
        _C.Program(_C.ScriptSource(torch.jit.script(function), described), opset=20)
    assert caught.value.kind == "unsupported"
