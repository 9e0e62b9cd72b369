"""Native capture of sizes as 0-d tensors: made by PyTorch's functions, and used where sizes are."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from adversarial import assertions
from models.calling import Calling
from models.recording import DYNAMIC, EXAMPLES, Function, X, assert_recorded, function_id
from torch import nn


def divided(x: torch.Tensor) -> Any:
    half = torch.div(x.size(1), 2, rounding_mode="trunc")
    return half, x.new_zeros(half, 2), torch.div(x.size(1), 2), torch.div(7, x.size(0)) * x


def computed(x: torch.Tensor) -> Any:
    n = x.shape[1]
    return (
        torch.mul(n, 2),
        torch.add(n, x),
        torch.sub(n, 1, alpha=2),
        torch.floor_divide(n, 3) * x,
        torch.true_divide(x.size(0), n),
    )


def floors(x: torch.Tensor) -> Any:
    n = torch.tensor(x.shape[1])
    return x.new_ones(n // 2), x.new_ones((n + 3) // 4), x.new_ones(torch.div(n, 2).long())


def viewed(x: torch.Tensor) -> Any:
    rows = torch.tensor(x.shape[0]) * x.shape[1] // x.shape[0]
    return x.view(rows, -1), x.reshape(torch.tensor(x.shape[1]), -1)


def sliced(x: torch.Tensor) -> Any:
    end = torch.tensor(x.shape[1]) - 1
    shorter = x[:, :end]
    result = x.clone()
    result[:, end:] = 0
    return shorter, x[:, end:], x[:, :: torch.tensor(2)], result


def narrowed(x: torch.Tensor) -> Any:
    end = torch.tensor(x.shape[1]) - 1
    return x.narrow(1, end, 1), torch.narrow(x, -2, end - end, x.shape[1]), x.narrow(1, 0, 1)


@pytest.mark.parametrize(
    "function", [divided, computed, floors, viewed, sliced, narrowed], ids=function_id
)
def test_tensors_are_sizes(function: Function) -> None:
    assert_recorded(Calling(function), (DYNAMIC,), *EXAMPLES)
    assert_recorded(Calling(function), None, EXAMPLES[0])


def test_a_floor_of_sizes_is_one_division() -> None:
    program = assert_recorded(Calling(lambda x: torch.tensor(x.shape[1]) // 2), (DYNAMIC,), (X,))
    operators = [node.op_type for node in program.model.graph]
    assert operators.count("Div") == 1
    assert "Where" not in operators


def test_counts_of_elements() -> None:
    ones = X.abs() + 1
    assert_recorded(Calling(assertions.packed_rows), (DYNAMIC,), (X,), (-X,), (ones,))


class Windows(nn.Module):
    """Overlapping windows as Longformer takes them: by as_strided, of values of many layouts."""

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> Any:
        x = x.transpose(0, 1)
        taken = (mask != 0)[:, :, None, None]
        scores = taken.type_as(x).masked_fill(taken, -1e4)
        batch, length, heads, width = scores.size()
        chunks = scores.transpose(1, 2).reshape(batch * heads, length, width)
        padded = nn.functional.pad(x.permute(2, 0, 1), (0, 0, 2, 2), value=-1.0)
        return self._windows(chunks), self._windows(padded)

    @staticmethod
    def _windows(x: torch.Tensor) -> torch.Tensor:
        count = torch.div(x.size(1), 4, rounding_mode="trunc")
        x = x.view(x.size(0), count, 4, x.size(2))
        size, stride = list(x.size()), list(x.stride())
        size[1] = size[1] * 2 - 1
        stride[1] = stride[1] // 2
        return x.as_strided(size, stride)


@pytest.mark.parametrize("is_dynamic", [False, True])
def test_windows(is_dynamic: bool) -> None:
    def example(batch: int, length: int) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.randn(batch, length, 3), torch.arange(batch * length).view(batch, -1) % 3

    sizes = {0: "batch", 1: "length"}
    if is_dynamic:
        others = example(3, 12), example(1, 8)
        assert_recorded(Windows(), (sizes, sizes), example(2, 8), *others)
    else:
        assert_recorded(Windows(), None, example(2, 8))
