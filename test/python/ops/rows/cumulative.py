"""Rows of csrc/ops/math/cumulative.cpp."""

import math

import torch

from ops.row import Case, Row, integers

aten = torch.ops.aten

WITH_NAN = torch.tensor([[1.0, math.nan, 3.0, math.nan], [2.0, 2.0, -math.inf, 5.0]])

ROWS = [
    Row(
        "aten::cumsum",
        opinfo="cumsum",
        cases=(Case(lambda x: aten.cumsum(x, 1, dtype=torch.int8), integers(3, 4) * 60),),
    ),
    Row("aten::cumprod", opinfo="cumprod"),
    Row("aten::cummax", opinfo="cummax", cases=(Case(lambda x: aten.cummax(x, 1), WITH_NAN),)),
    Row("aten::cummin", opinfo="cummin", cases=(Case(lambda x: aten.cummin(x, 1), WITH_NAN),)),
    Row("aten::logcumsumexp", opinfo="logcumsumexp"),
]
