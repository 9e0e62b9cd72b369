"""Rows of csrc/ops/tensor/search.cpp."""

import math

import torch

from ops.row import Case, Row, at, bools, floats, integers

aten = torch.ops.aten

FLOAT = ("float32",)
EDGES = torch.tensor([0.0, 0.5, 1, 1, 2, 4])


def searches(x: torch.Tensor, edges: torch.Tensor) -> list[torch.Tensor]:
    """Left and right, for numbers and tensors."""
    rows = torch.stack([edges, edges * 2])
    return [
        aten.bucketize.Tensor(x, edges),
        aten.bucketize.Tensor(x, edges, right=True, out_int32=True),
        aten.bucketize.Scalar(1, edges, right=True),
        aten.searchsorted.Tensor(edges, x),
        aten.searchsorted.Tensor(edges, x, side="right", out_int32=True),
        aten.searchsorted.Tensor(rows, torch.stack([x, x + 1]).flatten(1), right=True),
        aten.searchsorted.Scalar(edges, 1.5),
        aten.searchsorted.Tensor(edges.flip(0), x, sorter=torch.tensor([5, 4, 3, 2, 1, 0])),
    ]


def members(x: torch.Tensor, y: torch.Tensor) -> list[torch.Tensor]:
    """All forms."""
    return [
        aten.isin.Tensor_Tensor(x, y),
        aten.isin.Tensor_Tensor(x, y, assume_unique=True, invert=True),
        aten.isin.Tensor_Scalar(x, 2),
        aten.isin.Scalar_Tensor(3, y, invert=True),
        aten.isin.Tensor_Tensor(x, y[:0]),
    ]


def uniques(x: torch.Tensor) -> list[torch.Tensor]:
    """Unique values of a [?, 3] tensor, with inverse and counts."""
    return [
        *aten._unique2(x, True, True, True),
        aten._unique2(x)[0],
        *aten._unique(x, True, True),
        *aten.unique_dim(x, 0, True, True, True),
        *aten.unique_dim(x, -1, True, True, True),
        *aten.unique_consecutive(x, True, True),
        *aten.unique_consecutive(x, True, True, 0),
        *aten.unique_consecutive(x, True, True, 1),
        aten.unique_consecutive(x)[0],
    ]


def counts(x: torch.Tensor, weights: torch.Tensor) -> list[torch.Tensor]:
    """Counts of each number."""
    return [
        aten.bincount(x),
        aten.bincount(x, minlength=20),
        aten.bincount(x, weights),
        aten.bincount(x.int(), weights.double()),
        aten.bincount(x[:0], minlength=3),
    ]


def histograms(x: torch.Tensor) -> list[torch.Tensor]:
    """Histograms with explicit and computed ranges."""
    weight = x.abs()
    return [
        aten.histc(x, 5),
        aten.histc(x, 4, -1, 1),
        aten.histc(x[:1, :1], 3),
        *aten.histogram.bin_ct(x, 4),
        *aten.histogram.bin_ct(x, 5, range=[-1.0, 1.0], weight=weight, density=True),
        *aten.histogram.bins_tensor(x, EDGES, density=True),
        aten.histogram.bins_tensor(x, EDGES, weight=weight)[0],
    ]


def grid_counts(x: torch.Tensor, weight: torch.Tensor) -> list[torch.Tensor]:
    """Histograms with explicit bin edges."""
    edges = [torch.tensor([-1.0, 0, 2]), torch.tensor([-0.5, 0.5])]
    histogramdd = aten.histogramdd.TensorList_bins
    return [
        histogramdd(x, edges)[0],
        histogramdd(x, edges, weight=weight, density=True)[0],
    ]


REPEATED = torch.tensor([[1, 2, 2], [1, 2, 2], [0, 5, 5], [1, 2, 2]])

ROWS = [
    Row(
        (
            "aten::bucketize.Tensor",
            "aten::bucketize.Scalar",
            "aten::searchsorted.Tensor",
            "aten::searchsorted.Scalar",
        ),
        name="searches",
        cases=(
            Case(searches, torch.tensor([[1.0, math.nan, -1], [0.5, 4, math.inf]]), EDGES),
            Case(searches, integers(3, 2, low=-1, high=5), torch.arange(6)),
        ),
    ),
    Row(
        "aten::searchsorted.Tensor",
        opinfo="searchsorted",
        dtypes=FLOAT,
        cases=(Case(lambda x, edges: torch.searchsorted(edges, x), floats(4, 3), EDGES),),
    ),
    Row(
        ("aten::isin.Tensor_Tensor", "aten::isin.Tensor_Scalar", "aten::isin.Scalar_Tensor"),
        name="members",
        cases=(
            Case(members, integers(3, 4), integers(5, seed=1)),
            Case(members, integers(3, 4), integers(2, 2, seed=1).float()),
        ),
    ),
    Row(
        ("aten::_unique", "aten::_unique2", "aten::unique_dim", "aten::unique_consecutive"),
        name="uniques",
        cases=(
            Case(uniques, REPEATED),
            Case(uniques, REPEATED.float()),
            Case(uniques, REPEATED.int()),
            Case(lambda x: aten._unique2(x, True, True, True), bools(3, 4)),
        ),
    ),
    # Along a negative dimension torch.export itself records a wrong shape.
    Row("aten::unique_consecutive", opinfo="unique_consecutive", dtypes=FLOAT, pick=at(0, 57, 263)),
    Row(
        "aten::bincount",
        cases=(Case(counts, integers(8, low=0), floats(8)),),
    ),
    Row(
        ("aten::histc", "aten::histogram.bin_ct", "aten::histogram.bins_tensor"),
        name="histograms",
        cases=(
            Case(lambda x: aten.histc(x, 5), floats(4, 5)),
            Case(histograms, floats(4, 5)),
        ),
    ),
    Row(
        "aten::histogramdd",
        opinfo="histogramdd",
        dtypes=FLOAT,
        pick=at(0, 1),
        static="no meta kernel",
    ),
    Row(
        "aten::histogramdd.TensorList_bins",
        cases=(Case(grid_counts, floats(9, 2), floats(9).abs()),),
        static="no meta kernel",
    ),
]
