"""Rows of csrc/ops/math/reduction.cpp."""

import math

import torch

from ops.row import Case, Row, bools, floats, integers

aten = torch.ops.aten
INF, NAN = math.inf, math.nan

WITH_NAN = torch.tensor([[1.0, NAN, 3.0, NAN], [INF, 2.0, NAN, 1.0], [4.0, 5.0, 5.0, 0.0]])
TIES = torch.tensor([[1, 3, 3, 0], [2, 2, 2, 2], [-1, -5, -5, 7]])
EMPTY = torch.zeros(3, 0)


def moments(x: torch.Tensor) -> list[torch.Tensor]:
    """All forms of variance and standard deviation."""
    found: list[torch.Tensor] = []
    for name in ("var", "std"):
        single, both = getattr(aten, name), getattr(aten, f"{name}_mean")
        found += [
            single(x),
            single(x, False),
            single.dim(x, [-1], False, True),
            single.correction(x, [0], correction=2),
            single.correction(x),
            *both(x, False),
            *both.dim(x, [-1], True),
            *both.correction(x, [-1], correction=0.5, keepdim=True),
        ]
    return found


def extremes(x: torch.Tensor) -> list[torch.Tensor]:
    """All forms of maximum and minimum."""
    return [
        *aten.max.dim(x, 1),
        *aten.min.dim(x, 0, True),
        aten.max(x),
        aten.min(x),
        aten.amax(x, [1]),
        aten.amin(x, [], True),
        aten.argmax(x, 1),
        aten.argmin(x, 0, True),
        aten.argmax(x),
        aten.argmin(x, None, True),
        *aten.aminmax(x),
        *aten.aminmax(x, dim=1, keepdim=True),
    ]


def truths(x: torch.Tensor) -> list[torch.Tensor]:
    """All forms of any and all."""
    return [
        result
        for op in (aten.any, aten.all)
        for result in (
            op(x),
            op.dim(x, 1),
            op.dims(x, [0, 1], True),
            op.dims(x, []),
            op.dims(x, None),
        )
    ]


ROWS = [
    Row(
        "aten::sum.dim_IntList",
        opinfo="sum",
        cases=(
            Case(lambda x: torch.sum(x, 1), EMPTY),
            Case(lambda x: torch.sum(x, 1, dtype=torch.int8), integers(3, 4) * 60),
        ),
    ),
    Row("aten::sum", cases=(Case(lambda x: (torch.sum(x), torch.sum(x > 0)), floats(3, 4)),)),
    Row("aten::nansum", opinfo="nansum", cases=(Case(lambda x: torch.nansum(x, 1), WITH_NAN),)),
    Row(
        ("aten::mean", "aten::mean.dim"),
        opinfo="mean",
        cases=(
            Case(lambda x: (torch.mean(x), torch.mean(x, 1, dtype=torch.float64)), floats(3, 4)),
            Case(lambda x: torch.mean(x, -1), EMPTY),
        ),
    ),
    Row("aten::nanmean", opinfo="nanmean", cases=(Case(lambda x: torch.nanmean(x, 1), WITH_NAN),)),
    Row(
        ("aten::prod", "aten::prod.dim_int"),
        name="prod",
        cases=(
            Case(lambda x: (torch.prod(x), torch.prod(x, -1, True)), floats(3, 4)),
            Case(lambda x: torch.prod(x, 1), EMPTY),
            Case(lambda x: (torch.prod(x), torch.prod(x, 0)), bools(3, 4)),
        ),
    ),
    Row(
        ("aten::count_nonzero", "aten::count_nonzero.dim_IntList"),
        name="count_nonzero",
        cases=(
            Case(
                lambda x: (
                    aten.count_nonzero(x),
                    aten.count_nonzero(x, 0),
                    aten.count_nonzero(x, [1]),
                ),
                WITH_NAN,
            ),
        ),
    ),
    Row("aten::amax", opinfo="amax"),
    Row("aten::amin", opinfo="amin"),
    Row("aten::argmax", opinfo="argmax"),
    Row("aten::argmin", opinfo="argmin"),
    Row("aten::aminmax", opinfo="aminmax"),
    Row(
        ("aten::_aminmax", "aten::_aminmax.dim"),
        name="_aminmax",
        static="it has no rule for symbolic sizes",
        cases=(
            Case(lambda x: [*aten._aminmax(x), *aten._aminmax.dim(x, 1, True)], floats(3, 4)),
            Case(lambda x: [*aten._aminmax(x), *aten._aminmax.dim(x, -1)], integers(3, 4)),
        ),
    ),
    Row("aten::max", opinfo="max", variant="reduction_no_dim"),
    Row("aten::min", opinfo="min", variant="reduction_no_dim"),
    Row("aten::max.dim", opinfo="max", variant="reduction_with_dim"),
    Row("aten::min.dim", opinfo="min", variant="reduction_with_dim"),
    Row(
        "aten::max",
        name="extremes of special values",
        cases=(
            Case(extremes, WITH_NAN),
            Case(extremes, TIES),
            Case(extremes, TIES.to(torch.int8)),
            Case(lambda x: (*aten.max.dim(x, 1), *aten.min.dim(x, 0), aten.amax(x)), TIES > 1),
        ),
    ),
    Row(
        tuple(f"aten::{name}{form}" for name in ("any", "all") for form in ("", ".dim", ".dims")),
        name="any and all",
        cases=(
            Case(truths, bools(3, 4)),
            Case(truths, WITH_NAN),
            Case(truths, integers(3, 4, low=0, high=2, dtype=torch.uint8)),
            Case(truths, EMPTY),
        ),
    ),
    Row(
        ("aten::_is_any_true", "aten::_is_all_true"),
        name="any and all of bools",
        cases=tuple(
            Case(lambda x: (aten._is_any_true(x), aten._is_all_true(x)), x)
            for x in (bools(3, 4), torch.ones(2, 3) > 0, torch.zeros(0, 3) > 0)
        ),
    ),
    Row("aten::var.correction", opinfo="var"),
    Row(
        tuple(
            f"aten::{name}{form}"
            for name in ("var", "std", "var_mean", "std_mean")
            for form in ("", ".dim", ".correction")
            if name + form != "var.correction"
        ),
        name="moments",
        cases=(Case(moments, floats(3, 4)), Case(moments, EMPTY), Case(moments, floats(1, 4))),
    ),
    Row(
        "aten::logsumexp",
        opinfo="logsumexp",
        cases=(
            Case(lambda x: torch.logsumexp(x, 1), torch.tensor([[-INF, -INF], [INF, 1], [2.0, 3]])),
        ),
    ),
    Row(
        "aten::special_logsumexp",
        cases=(Case(lambda x: torch.special.logsumexp(x, [0, 1]), floats(3, 4)),),
    ),
]
