"""Rows of csrc/ops/tensor/scatter.cpp."""

import math

import torch

from ops.row import Case, Row, bools, floats, integers

aten = torch.ops.aten

FLOAT = ("float32",)
REDUCES = ("sum", "prod", "mean", "amax", "amin")
AT_I = torch.tensor([[0, -1], [1, 1]])
AT_J = torch.tensor([2, -2])


def puts(x: torch.Tensor, i: torch.Tensor, j: torch.Tensor) -> list[torch.Tensor]:
    """Indexed writes to a [?, 3, 4] tensor, with and without accumulation."""
    found = []
    for accumulate in (False, True):
        one = x.new_ones(())
        found += [
            aten.index_put(x, [None, j], x[:, :1], accumulate),
            aten.index_put(x, [None, None, j], one, accumulate),
            aten.index_put(x, [None, i[0], j], x[:1, :2, 0], accumulate),
            aten.index_put(x, [j, None, j], x[0, 0, :3], accumulate),
            aten._unsafe_index_put(x, [i[1:, :1], j], one, accumulate),
        ]
    return found


def masked_puts(x: torch.Tensor, rows: torch.Tensor, grid: torch.Tensor) -> list[torch.Tensor]:
    """Masked writes to a [?, 3, 4] tensor."""
    one = x.new_ones(())
    return [
        aten.index_put(x, [None, rows], one),
        aten.index_put(x, [None, rows], x[:, :1, :1], True),
        aten.index_put(x, [None, grid], x[:, 0, :1]),
        aten.index_put(x, [None, rows, torch.tensor(2)], x[:, 0, :1]),
        aten.index_put(x, [x > 0], one),
        aten.index_put(x, [x[..., 0] > 0], x[0, 0]),
    ]


def reductions(x: torch.Tensor, index: torch.Tensor, src: torch.Tensor) -> list[torch.Tensor]:
    """All reductions, with and without the initial values."""
    found = []
    for reduce in REDUCES:
        for include_self in (True, False):
            found.append(
                aten.scatter_reduce.two(x, 1, index, src, reduce, include_self=include_self)
            )
            if reduce != "sum":
                found.append(
                    aten.index_reduce(
                        x, 1, index[0, :2], src[:, :2], reduce, include_self=include_self
                    )
                )
    return found


def slices(x: torch.Tensor, index: torch.Tensor, src: torch.Tensor) -> list[torch.Tensor]:
    """Writes whole slices of a [?, 4] tensor."""
    return [
        aten.index_add(x, 1, index, src[:, :2]),
        aten.index_add(x, -1, index, src[:, :2], alpha=2),
        aten.index_copy(x, 1, index, src[:, :2]),
        aten.index_copy(x, 0, index, src[:2]),
        aten.index_fill.int_Scalar(x, 1, index, 3),
        aten.index_fill.int_Tensor(x, 0, index, torch.tensor(2)),
    ]


def elements(x: torch.Tensor, index: torch.Tensor, src: torch.Tensor) -> list[torch.Tensor]:
    """Writes elements of a [?, 4] tensor."""
    return [
        aten.scatter.src(x, 1, index[:, :1], src),
        aten.scatter.value(x, 1, index[:2], 2.5),
        aten.scatter.reduce(x, 1, index, src, reduce="add"),
        aten.scatter.reduce(x, 1, index, src, reduce="multiply"),
        aten.scatter.value_reduce(x, 1, index, 3, reduce="multiply"),
        aten.scatter_add(x, -1, index, src),
        aten.put(x, index[0, :2], src[0, :2]),
        aten.put(x, index[0, :2], src[0, :2], True),
        aten.scatter.src(x, 0, index[:0], src),
    ]


def parts(x: torch.Tensor, src: torch.Tensor) -> list[torch.Tensor]:
    """Replaces parts of a [?, 4, 5] tensor."""
    return [
        aten.select_scatter(x, src[:, 0], 1, -1),
        aten.select_scatter(x, src[0], 0, 0),
        aten.slice_scatter(x, src) + 1,
        aten.slice_scatter(x, src[:, 1:3], 1, 1, 3),
        aten.slice_scatter(x, src[:, :2], 1, 0, 100, 2),
        aten.slice_scatter(x, src[..., -2:], -1, -2),
        aten.diagonal_scatter(x, src[:, :, 0], 0, 1, 2),
        aten.diagonal_scatter(x, src[:, :3, 0], -1, 1, 2),
        aten.diagonal_scatter(x, src[:, :3, 0], -2, 2, 1),
    ]


def masked_writes(x: torch.Tensor, mask: torch.Tensor, src: torch.Tensor) -> list[torch.Tensor]:
    """Cases whose source has enough elements for the mask."""
    return [
        aten.masked_scatter(x, mask, src),
        aten.masked_scatter(x, mask[0], src),
        aten.masked_scatter(x, mask & False, src) + 1,
    ]


INDEX = torch.tensor([[0, 3, 1, 0], [2, 2, 2, 2], [1, 0, 0, 3]])
WITH_NAN = torch.tensor([[1.0, math.nan, 3, 4], [math.inf, -math.inf, 2, 1], [0, -1, 1, math.nan]])

ROWS = [
    Row(
        "onnx_native::fill_diagonal",
        cases=(
            Case(lambda x: x.clone().fill_diagonal_(1.5), floats(3, 5)),
            Case(lambda x: x.clone().fill_diagonal_(2, wrap=True), floats(7, 3)),
            Case(lambda x: x.clone().fill_diagonal_(2, wrap=True), floats(3, 7)),
            Case(lambda x: x.clone().fill_diagonal_(7), integers(3, 3, 3)),
        ),
    ),
    Row(
        ("aten::index_put", "aten::_unsafe_index_put"),
        name="puts",
        cases=(
            Case(puts, floats(3, 3, 4), AT_I, AT_J),
            Case(puts, integers(3, 3, 4), AT_I, AT_J),
            Case(puts, bools(3, 3, 4), AT_I, AT_J),
        ),
    ),
    Row(
        "aten::index_put",
        name="masked puts",
        opinfo="index_put",
        dtypes=FLOAT,
        cases=(Case(masked_puts, floats(3, 3, 4), torch.tensor([True, False, True]), bools(3, 4)),),
    ),
    Row(
        "aten::_unsafe_masked_index_put_accumulate",
        opinfo="_unsafe_masked_index_put_accumulate",
        dtypes=FLOAT,
    ),
    Row(
        (
            "aten::index_add",
            "aten::index_copy",
            "aten::index_fill.int_Scalar",
            "aten::index_fill.int_Tensor",
        ),
        name="written slices",
        cases=(
            Case(slices, floats(3, 4), torch.tensor([1, 0]), floats(3, 4, seed=1)),
            Case(
                slices,
                integers(3, 4, dtype=torch.int32),
                torch.tensor([1, 0]),
                integers(3, 4, seed=1, dtype=torch.int32),
            ),
        ),
    ),
    Row("aten::index_add", opinfo="index_add"),
    Row("aten::index_copy", opinfo="index_copy", dtypes=("float32", "bool")),
    Row("aten::index_fill.int_Scalar", opinfo="index_fill", dtypes=("float32", "bool")),
    Row(
        ("aten::scatter_reduce.two", "aten::index_reduce"),
        name="reductions",
        cases=(
            Case(reductions, floats(3, 4), INDEX, floats(3, 4, seed=1)),
            Case(reductions, integers(3, 4), INDEX, integers(3, 4, seed=1)),
            Case(reductions, WITH_NAN.flip(0), INDEX, WITH_NAN),
        ),
    ),
    *(
        Row(
            "aten::scatter_reduce.two",
            name=f"scatter_reduce {reduce}",
            opinfo="scatter_reduce",
            variant=reduce,
            dtypes=("float32", "bool") if reduce == "amax" else FLOAT,
        )
        for reduce in REDUCES
    ),
    Row(
        (
            "aten::scatter.src",
            "aten::scatter.value",
            "aten::scatter.reduce",
            "aten::scatter.value_reduce",
            "aten::scatter_add",
            "aten::put",
        ),
        name="written elements",
        cases=(
            Case(elements, floats(3, 4), INDEX, floats(3, 4, seed=1)),
            Case(elements, integers(3, 4), INDEX, integers(3, 4, seed=1)),
        ),
    ),
    Row("aten::scatter.src", opinfo="scatter", dtypes=("float32", "bool")),
    Row("aten::scatter_add", opinfo="scatter_add", dtypes=("float32", "bool")),
    Row("aten::put", opinfo="put", dtypes=FLOAT),
    Row(
        "aten::masked_scatter",
        cases=(
            Case(masked_writes, floats(3, 4), bools(3, 4), floats(5, 4)),
            Case(masked_writes, bools(3, 4), bools(3, 4), bools(5, 4)),
        ),
    ),
    Row(
        ("aten::select_scatter", "aten::slice_scatter", "aten::diagonal_scatter"),
        name="replaced parts",
        cases=(
            Case(parts, floats(3, 4, 5), floats(3, 4, 5, seed=1)),
            Case(parts, bools(3, 4, 5), bools(3, 4, 5, seed=1)),
            Case(lambda x, src: aten.slice_scatter(x, src[1:], 0, 1), floats(3, 4), floats(3, 4)),
        ),
    ),
    Row(
        "aten::as_strided_scatter",
        cases=(
            Case(
                lambda x, src: aten.as_strided_scatter(x, src, [2, 2], [1, 5], 3),
                floats(4, 5),
                floats(2, 2),
            ),
        ),
        static="strides are of one shape",
    ),
]
