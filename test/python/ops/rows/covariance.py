"""Rows of csrc/ops/linalg/covariance.cpp."""

import torch

from ops.row import Case, Row, floats, integers

COMPARES = "PyTorch compares tensors inside, which has no fake kernel"
COUNTS, WEIGHTS = integers(5, low=1, high=4), floats(5, seed=2).abs() + 0.1


def covariances(x: torch.Tensor, counts: torch.Tensor, weights: torch.Tensor) -> list[torch.Tensor]:
    return [
        x.cov(correction=0),
        x.cov(correction=5),  # nothing is left to divide by
        x.cov(fweights=counts),
        x.cov(aweights=weights),
        x.cov(fweights=counts, aweights=weights, correction=2),
    ]


ROWS = [
    Row(
        "aten::cov",
        opinfo="cov",
        native_only=COMPARES,
        cases=(Case(covariances, floats(3, 5), COUNTS, WEIGHTS),),
    ),
    Row(
        "aten::corrcoef",
        opinfo="corrcoef",
        native_only=COMPARES,
        cases=(Case(torch.corrcoef, floats(3, 5)),),
    ),
]
