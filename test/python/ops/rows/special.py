"""Rows of csrc/ops/special.cpp."""

import math

import torch

from ops.row import Case, Row

# Around the poles, small, ordinary, large, and what is not a number.
NUMBERS = torch.tensor(
    [
        -100.3,
        -7.5,
        -3.0,
        -2.0001,
        -1.5,
        -1e-3,
        -0.0,
        0.0,
        1e-6,
        0.25,
        0.5,
        1.0,
        1.4616,
        2.0,
        7.3,
        33.0,
        1e4,
        1e20,
        math.inf,
        math.nan,
    ]
)

ROWS = [
    Row("aten::lgamma", opinfo="lgamma", cases=(Case(torch.lgamma, NUMBERS),)),
    Row("aten::digamma", opinfo="digamma", cases=(Case(torch.digamma, NUMBERS),)),
    Row("aten::mvlgamma", opinfo="mvlgamma", variant="mvlgamma_p_3"),
    Row("aten::special_entr", opinfo="special.entr"),
]
