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
    assert "test_native_capture_identities.py" in guards[0]["source"]
