"""Native capture of sizes as 0-d tensors: made by PyTorch's functions, and used where sizes are."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from adversarial import assertions
from models.calling import Calling
from models.recording import (
    DYNAMIC,
    EXAMPLES,
    Function,
    X,
    assert_equal_to_eager,
    assert_native,
    assert_recorded,
    exported,
    function_id,
)
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


class Padded(nn.Module):
    """Pads as the convolutions of EnCodec and Mimi do: their strides are buffers."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("kernel", torch.tensor(7), persistent=False)
        self.register_buffer("step", torch.tensor(4), persistent=False)

    def forward(self, x: torch.Tensor) -> Any:
        length = x.shape[1]
        frames = (length - self.kernel + 3) / self.step + 1
        frames = torch.ceil(frames).to(torch.int64) - 1
        more = frames * self.step + self.kernel - 3 - length
        largest = max(self.kernel - 5, more)  # compares tensors
        return nn.functional.pad(x, (0, 0, 0, more)), nn.functional.pad(x, (0, 0, 0, largest))


def test_padding_by_buffers() -> None:
    others = [(torch.randn(2, length, 2),) for length in (1, 4, 5, 6, 7, 8, 33)]
    assert_recorded(Padded(), DYNAMIC, (torch.randn(2, 9, 2),), *others)


def floats(x: torch.Tensor) -> Any:
    n = torch.tensor(x.shape[1])
    return (
        x.new_ones((n * 0.5 + 0.75).long()),
        x.new_ones(torch.ceil(n / 3 + 2).long()),
        x.new_ones(torch.floor(n / 7 * 4).int()),
        x.new_ones((n / 49 * 49).long()),  # float32 rounds twice: it may be one less
        x.new_ones((n / 3 + n / 3 + n / 3).long()),
        x.new_ones((n * 0.3).long()),
    )


def test_floats_of_sizes() -> None:
    others = [(torch.randn(2, length, 4),) for length in (*range(1, 60), 147, 1000)]
    module = Calling(floats)
    assert_equal_to_eager(exported(module, (X,), (DYNAMIC,)), module, *others)


def compares(x: torch.Tensor) -> Any:
    n = torch.tensor(x.shape[1])
    y = x * 2 if n > 4 else x - 1
    y = y + 1 if n // 2 >= x.shape[0] else y
    return y.sum(0) if torch.tensor(x.shape[0]) > 1 else y.mean(0)


def test_comparisons_of_sizes() -> None:
    others = [(torch.randn(batch, n, 4),) for batch in (1, 2, 3) for n in (1, 4, 5, 6, 7)]
    module = Calling(compares)
    program = exported(module, (torch.randn(3, 6, 4),), (DYNAMIC,))
    assert_native(program)
    assert_equal_to_eager(program, module, *others)


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


class SplitRows(Windows):
    """Windows of a view whose rows are far from each other, as Longformer's queries are."""

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> Any:
        x = (x.transpose(0, 1).contiguous() * 2).view(x.shape[1], x.shape[0], 3, 1).transpose(0, 1)
        x = x.transpose(1, 2).reshape(x.shape[0] * 3, x.shape[1], 1)
        return torch.einsum("abcd,aecd->abe", self._windows(x), self._windows(x)) + mask.sum()


def test_windows_of_rows_that_are_split() -> None:
    def example(batch: int, length: int) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.randn(batch, length, 3), torch.ones(2)

    others = example(3, 12), example(1, 8), example(4, 16)
    assert_recorded(SplitRows(), ({0: "batch", 1: "length"}, None), example(2, 8), *others)
