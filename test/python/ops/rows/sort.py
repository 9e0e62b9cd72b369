"""Rows of csrc/ops/tensor/sort.cpp."""

import math

import torch

from ops.row import Case, Row, bools, floats, integers

aten = torch.ops.aten

FLOAT = ("float32",)
WITH_NAN = torch.tensor(
    [[1.0, math.nan, 3, 4, 0], [5, 2, 2, 1, 2], [math.nan] * 5, [-math.inf, 9, 9, math.inf, 9]]
)


def sorts(x: torch.Tensor) -> list[torch.Tensor]:
    """All overloads; stable sorts where ties are visible."""
    return [
        *aten.sort.stable(x, stable=True),
        *aten.sort.stable(x, stable=True, dim=0, descending=True),
        *aten.sort.stable(x, stable=True, descending=True),
        aten.sort(x, 0)[0],
        aten.argsort.stable(x, stable=True, dim=-1),
        aten.msort(x),
        aten.topk(x, 3)[0],
        aten.topk(x, 2, -1, False)[0],
        aten.kthvalue(x, 2)[0],
        aten.kthvalue(x, 1, -1, True)[0],
    ]


def medians(x: torch.Tensor) -> list[torch.Tensor]:
    """Over all elements and along dimensions."""
    return [
        aten.median(x),
        aten.nanmedian(x),
        aten.median.dim(x, 0)[0],
        aten.median.dim(x, -1, True)[0],
        aten.nanmedian.dim(x, 1)[0],
        aten.nanmedian.dim(x, 0, True)[0],
    ]


def quantiles(x: torch.Tensor, q: torch.Tensor) -> list[torch.Tensor]:
    """All interpolations and overloads."""
    found = []
    for quantile in (aten.quantile, aten.nanquantile):
        found += [
            quantile(x, q, 1, interpolation=mode)
            for mode in ("linear", "lower", "higher", "midpoint", "nearest")
        ]
        found += [
            quantile(x, q),
            quantile(x, q[0], None, True),
            quantile(x, q, 0, True),
            quantile.scalar(x, 0.3, -1),
            quantile.scalar(x, 0.9, 0, True, interpolation="lower"),
        ]
    return found


def of_zero_dim(x: torch.Tensor) -> list[torch.Tensor]:
    """Sorts of a 0-D tensor."""
    return [
        *aten.sort(x),
        aten.argsort(x),
        *aten.topk(x, 1),
        *aten.kthvalue(x, 1),
        *aten.median.dim(x, 0),
        *aten.nanmedian.dim(x, 0, True),
        aten.median(x),
        *aten.mode(x),
        aten.msort(x),
        aten.quantile.scalar(x, 0.5),
    ]


DISTINCT = torch.tensor([[3, 1, 2, 9, 5], [8, 7, 6, 0, 4]])

ROWS = [
    Row(
        (
            "aten::sort.stable",
            "aten::sort",
            "aten::argsort.stable",
            "aten::msort",
            "aten::topk",
            "aten::kthvalue",
        ),
        name="sorts",
        cases=(
            Case(sorts, floats(4, 5)),
            Case(sorts, integers(4, 5, low=0, high=4)),
            Case(sorts, integers(4, 5, dtype=torch.uint8, low=0)),
            Case(sorts, floats(4, 5, dtype=torch.float16)),
        ),
    ),
    Row(
        "aten::sort",
        name="sort of bools",
        cases=(Case(lambda x: aten.sort.stable(x, stable=True) + aten.sort(x)[:1], bools(4, 5)),),
    ),
    Row("aten::sort", opinfo="sort", dtypes=FLOAT),
    Row("aten::argsort", opinfo="argsort", dtypes=FLOAT),
    Row("aten::topk", opinfo="topk", dtypes=FLOAT),
    Row("aten::kthvalue", opinfo="kthvalue", dtypes=FLOAT),
    Row(
        ("aten::median", "aten::median.dim", "aten::nanmedian", "aten::nanmedian.dim"),
        name="medians",
        cases=(
            Case(medians, floats(4, 5)),
            Case(medians, WITH_NAN),
            Case(medians, integers(4, 5, dtype=torch.int32)),
            Case(lambda x: (aten.median(x), aten.nanmedian(x)), torch.zeros(0)),
        ),
    ),
    Row(
        "aten::median.dim",
        name="indices of medians",
        cases=(
            Case(
                lambda x: (
                    *aten.median.dim(x, 1),
                    *aten.nanmedian.dim(x, 1),
                    *aten.kthvalue(x, 3),
                    *aten.mode(x),
                ),
                DISTINCT.float(),
            ),
        ),
    ),
    Row("aten::mode", opinfo="mode", dtypes=("float32", "int64", "bool")),
    Row(
        (
            "aten::quantile",
            "aten::quantile.scalar",
            "aten::nanquantile",
            "aten::nanquantile.scalar",
        ),
        name="quantiles",
        cases=(
            Case(lambda x, q: aten.quantile(x, q, 1), floats(4, 5), torch.tensor([0.2, 0.7])),
            Case(quantiles, floats(4, 5), torch.tensor([0.0, 0.35, 0.5, 1.0])),
            Case(quantiles, WITH_NAN[:3], torch.tensor([0.25, 0.9])),
        ),
    ),
    Row(
        "aten::sort",
        name="sorts of 0-d",
        cases=(Case(of_zero_dim, torch.tensor(2.5)),),
        static="0-d",
    ),
]
