"""Rows of csrc/ops/tensor/conversion.cpp."""

import math

import torch

from ops.row import Case, Row, floats, integers

aten = torch.ops.aten

COPIES = ("detach", "detach_copy", "lift_fresh_copy", "lift", "positive", "real")

ROWS = [
    Row("aten::clone", opinfo="clone"),
    Row(
        (*(f"aten::{name}" for name in COPIES), "aten::conj", "aten::conj_physical"),
        name="copies",
        cases=(
            Case(
                lambda x: (
                    [getattr(aten, name)(x) + 1 for name in (*COPIES, "conj_physical")]
                    + [aten.conj(x) + 1]
                ),
                floats(3, 4),
            ),
        ),
    ),
    Row(
        "aten::to.dtype",
        cases=(
            Case(
                lambda x: (x.to(torch.int32), x.double(), x.half(), x.to(torch.float32, copy=True)),
                torch.tensor([0.5, -1.5, 2.9, -0.1, 7.0]),
            ),
            Case(lambda x: x.bool(), torch.tensor([0.5, 0.0, -0.0, math.nan, math.inf])),
            Case(lambda x: (x.to(torch.int8), x.to(torch.uint8), x.float()), integers(3, 4) * 50),
        ),
    ),
    Row(
        (
            "aten::to.device",
            "aten::to.dtype_layout",
            "aten::to.other",
            "aten::type_as",
            "aten::_to_copy",
        ),
        name="forms of to",
        cases=(
            Case(
                lambda x, y: (
                    aten.to.device(x, "cpu", torch.int64),
                    aten.to.dtype_layout(x, dtype=torch.float64),
                    aten.to.other(x, y),
                    aten.type_as(x, y),
                    aten._to_copy(x, dtype=torch.float16),
                ),
                floats(3, 4),
                integers(3),
            ),
        ),
    ),
]
