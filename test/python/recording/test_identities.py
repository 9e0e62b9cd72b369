"""Native capture of programs in which a number that is read from data must be the size of a tensor.

A mask of ``torch.arange(lengths.max())`` meets a tensor: eager fails unless it is as long.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from models.recording import assert_recorded
from torch import nn


def padding_mask(lengths: torch.Tensor) -> torch.Tensor:
    longest = int(torch.max(lengths).item())
    return torch.arange(longest).expand(lengths.shape[0], longest) >= lengths[:, None]


class Masks(nn.Module):
    def __init__(self, function: Callable[[Any, torch.Tensor, torch.Tensor], Any]) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)
        self.function = function

    def forward(self, x: torch.Tensor, lengths: torch.Tensor) -> Any:
        return self.function(self, x, padding_mask(lengths))


def filled(_: Masks, x: torch.Tensor, mask: torch.Tensor) -> Any:
    return x.masked_fill(mask[..., None], 0.0).sum(1)


def attended(module: Masks, x: torch.Tensor, mask: torch.Tensor) -> Any:
    return module.attention(x, x, x, key_padding_mask=mask)[0]


def selected(_: Masks, x: torch.Tensor, mask: torch.Tensor) -> Any:
    return torch.where(mask[:, None], x.transpose(1, 2), 0.0), torch.cat([x, mask[..., None]], 2)


def viewed(_: Masks, x: torch.Tensor, mask: torch.Tensor) -> Any:
    return x * mask.view(x.shape[0], x.shape[1], 1)


@pytest.mark.parametrize("function", [filled, attended, selected, viewed])
def test_the_number_is_the_size(function: Callable[..., Any]) -> None:
    examples = []
    for batch, length in ((3, 7), (2, 11), (1, 4)):
        generator = torch.Generator().manual_seed(length)
        lengths = torch.randint(1, length + 1, (batch,), generator=generator)
        lengths[-1] = length
        examples.append((torch.randn(batch, length, 8, generator=generator), lengths))
    shapes = ({0: "batch", 1: "n"}, {0: "batch"})
    with pytest.warns(UserWarning, match="valid only where"):
        program = assert_recorded(Masks(function).eval(), shapes, *examples)
    guards = program.export_report["capture"]["guards"]
    assert [guard["condition"] for guard in guards] == ["max_1.item() == n"]
    assert "test_identities.py" in guards[0]["source"]


class Calls(nn.Module):
    def __init__(self, function: Callable[[torch.Tensor, torch.Tensor], Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> Any:
        return self.function(x, y)


def quotient(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    mask = y[0] > 0
    return x[:, mask] / y[0][mask] + torch.ones_like(x[0])[mask]


def written(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    mask = y > 0
    x = x.clone()
    x[mask] = x[mask] / y[mask]
    return x


def stacked(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    mask = x != y
    rows, columns = mask.nonzero(as_tuple=True)
    return torch.stack([x[mask], y[mask], rows, columns])


def counted(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    mask = y > 0
    return mask.nonzero() * x[mask][:, None]


@pytest.mark.parametrize("function", [quotient, written, stacked, counted])
def test_a_mask_selects_as_many_elements_each_time(function: Callable[..., Any]) -> None:
    examples = [
        tuple(torch.randn(n, 6, generator=torch.Generator().manual_seed(n)).repeat(2, 1, 1))
        for n in (3, 5)
    ]
    assert_recorded(Calls(function), ({0: "n"}, {0: "n"}), *examples)


def test_a_mask_that_changes() -> None:
    def filled(x: torch.Tensor, y: torch.Tensor) -> Any:
        mask = y > 0
        first = x[mask]
        mask[0] = True
        return first, x[mask], first.shape[0], x[mask].shape[0]

    examples = [tuple(torch.randn(2, n, 6)) for n in (3, 5)]
    assert_recorded(Calls(filled), ({0: "n"}, {0: "n"}), *examples)
