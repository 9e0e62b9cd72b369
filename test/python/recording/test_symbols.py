"""Symbols of a program, of its other recordings and of its lowering have different names."""

from __future__ import annotations

import torch
from models.recording import assert_recorded


class Squares(torch.nn.Module):
    """The side of a square is a number that follows from a size; the batch is a count of data."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x[(x != 0).any(-1).any(-1)]
        pieces = x.unfold(1, 4, 4).unfold(2, 4, 4)
        pieces = pieces.flatten(1, 2).flatten(2) + pieces[:, :, 0].sum()
        batch, count, size = pieces.size()
        side = int(count**0.5)
        return pieces.view(batch, side, side, size)


def test_a_number_is_not_the_count_of_a_mask() -> None:
    size = torch.export.Dim("size")
    examples = [(torch.randn(n, s, s),) for n, s in ((2, 16), (1, 16), (3, 24), (5, 4))]
    assert_recorded(Squares(), ({0: "n", 1: size, 2: size},), *examples)
