"""Rows of csrc/ops/linalg/distance.cpp."""

import math

import torch

from ops.row import Case, Row, floats

aten = torch.ops.aten

ROWS = [
    Row(
        "aten::cdist",
        opinfo="cdist",
        cases=(
            *(
                Case(lambda x, y, p=p: aten.cdist(x, y, p), floats(4, 3), floats(5, 3, seed=1))
                for p in (0.0, 1.0, 2.0, 3.5, math.inf)
            ),
            Case(aten.cdist, floats(2, 4, 3), floats(5, 3, seed=1)),
        ),
        tolerance={"float32": (1e-4, 1e-4)},  # eager multiplies matrices for the larger ones
    ),
    Row(
        ("aten::_cdist_forward", "aten::_euclidean_dist"),
        name="forward of cdist",
        cases=(
            Case(
                lambda x, y: (aten._cdist_forward(x, y, 1.0, None), aten._euclidean_dist(x, y)),
                floats(4, 3),
                floats(5, 3, seed=1),
            ),
        ),
        tolerance={"float32": (1e-4, 1e-4)},
    ),
    Row("aten::pdist", opinfo="nn.functional.pdist"),
    Row(
        "aten::_pdist_forward",
        cases=(Case(lambda x: aten._pdist_forward(x, 3.0), floats(5, 3)),),
    ),
    Row("aten::cosine_similarity", opinfo="nn.functional.cosine_similarity"),
    Row("aten::pairwise_distance", opinfo="nn.functional.pairwise_distance"),
]
