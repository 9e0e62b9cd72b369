"""Native capture of results whose sizes depend on the elements of literals."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from models.calling import Calling
from models.recording import DYNAMIC, EXAMPLES, Function, assert_recorded
from torch import nn
from torch.nn import functional as F


def segments(x: torch.Tensor) -> Any:
    """As vision transformers of packed images find the lengths of their images."""
    grid = torch.tensor([[1, 1, 2], [2, 1, 1]])
    lengths = torch.repeat_interleave(grid[:, 1] * grid[:, 2], grid[:, 0])
    ends = F.pad(lengths.cumsum(0), (1, 0))
    pieces = x.split((ends[1:] - ends[:-1]).tolist(), 2)
    return [piece.softmax(2) for piece in pieces], x * len(pieces)


def others(x: torch.Tensor) -> Any:
    """The other elements of each row."""
    n = x.shape[2]
    columns = torch.arange(n).expand(n, n).masked_select(~torch.eye(n, dtype=torch.bool))
    return x[..., columns.reshape(n, n - 1)], columns


def padded_windows(x: torch.Tensor) -> Any:
    index = F.pad(torch.arange(4).reshape(2, 2), (0, 1, 1, 0), value=-100)
    kept = index[index != -100]
    sizes = (index != -100).sum(1).tolist()
    return x[..., kept.flip(0)], torch.ones(sizes[1]) * x[..., : sizes[2]].sum()


def positions(x: torch.Tensor) -> Any:
    rows, columns = torch.where(torch.ones(3, 3).triu() > 0)
    found = torch.tensor([3, 1, 3]).unique()
    return rows * 3 + columns, x[..., : len(found)], (torch.ones(2, 2) > 0).nonzero()


def written_result(x: torch.Tensor) -> Any:
    found = torch.tensor([0.0, 3.0, 0.0, 4.0]).nonzero()
    found[0] = 7
    return found + x.shape[0]


def written_literal(x: torch.Tensor) -> Any:
    mask = torch.zeros(4)
    mask[x.shape[2] - 1] = 1
    return mask.nonzero()


def large(x: torch.Tensor) -> Any:
    return torch.ones(512, 512).nonzero().sum() + x


@pytest.mark.parametrize(
    "function",
    [segments, others, padded_windows, positions, written_result, written_literal, large],
)
def test_selections_of_literals(function: Function) -> None:
    program = assert_recorded(Calling(function), (DYNAMIC,), *EXAMPLES)
    assert program.model_proto.ByteSize() < 1 << 16


class Masked(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mask", torch.tensor([True, False, True, True]))

    def forward(self, x: torch.Tensor) -> Any:
        return x[..., self.mask]


def test_selections_of_buffers_stay_in_the_model() -> None:
    module = Masked()
    program = assert_recorded(module, (DYNAMIC[0],), *EXAMPLES)
    module.mask = ~module.mask
    program.apply_weights(module.state_dict())
    x = EXAMPLES[0][0]
    torch.testing.assert_close(program(x)[0], module(x))
