"""Rows of csrc/ops/tensor/segment.cpp."""

import math

import torch

from ops.row import Case, Row, floats

NAN = math.nan
REDUCTIONS = ("sum", "mean", "max", "min", "prod")
DATA = floats(7, 2)
LENGTHS = torch.tensor([2, 0, 4, 1])


def reduced(data: torch.Tensor, **arguments: object) -> list[torch.Tensor]:
    """Returns the result of each reduction."""
    return [torch.segment_reduce(data, name, **arguments) for name in REDUCTIONS]  # type: ignore


ROWS = [
    Row(
        "aten::segment_reduce",
        cases=(
            Case(lambda x, n: reduced(x, lengths=n), DATA, LENGTHS),
            Case(lambda x, n: reduced(x, lengths=n, initial=0.5), DATA, LENGTHS),
            Case(lambda x, n: reduced(x, lengths=n, unsafe=True), DATA[:, 0], LENGTHS.int()),
            Case(lambda x, n: reduced(x, lengths=n), DATA.double(), LENGTHS),
            Case(lambda x, n: reduced(x, offsets=n), DATA, torch.tensor([0, 2, 2, 6, 7])),
            Case(
                lambda x, n: reduced(x, lengths=n, axis=1),
                floats(2, 5, 3),
                torch.tensor([[2, 3, 0], [1, 1, 3]]),
            ),
            Case(
                lambda x, n: reduced(x, lengths=n),
                torch.tensor([1.0, NAN, 2.0, math.inf, 3.0]),
                torch.tensor([3, 2]),
            ),
        ),
        static="the lengths must sum up to the dimension",
    ),
]
