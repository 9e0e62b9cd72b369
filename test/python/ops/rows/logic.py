"""Rows of csrc/ops/math/logic.cpp."""

import math

import torch

from ops.row import Case, Row, bools, floats, integers

aten = torch.ops.aten

COMPARISONS = {
    "ne": "not_equal",
    "lt": "less",
    "le": "less_equal",
    "gt": "greater",
    "ge": "greater_equal",
}
SHIFTED = torch.tensor([1, -5, 7, 100, -128, 127]), torch.tensor([3, 1, 9, -1, 7, 0])
WITH_NAN = torch.tensor([math.nan, 1.0, -math.inf, 3.0, 0.0])


def all_comparisons(x: torch.Tensor) -> list[torch.Tensor]:
    """Operators without an OpInfo of their own: scalar overloads and long names."""
    found = [aten.eq.Scalar(x, 1)]
    for short, long in COMPARISONS.items():
        found += [
            getattr(aten, short).Scalar(x, 1),
            getattr(aten, long).Scalar(x, 0.5),
            getattr(aten, long).Tensor(x, x.flip(0)),
        ]
    return found


def bit_operations(x: torch.Tensor, y: torch.Tensor) -> list[torch.Tensor]:
    """All overloads of and, or, xor."""
    found = []
    for name in ("and", "or", "xor"):
        bitwise, dunder = getattr(aten, f"bitwise_{name}"), getattr(aten, f"__{name}__")
        found += [
            bitwise.Scalar(x, 1),
            bitwise.Scalar_Tensor(1, x),
            dunder.Tensor(x, y),
            dunder.Scalar(x, 1),
        ]
    return found


def shifts(x: torch.Tensor, y: torch.Tensor) -> list[torch.Tensor]:
    """All overloads of the shifts."""
    found = []
    for bitwise, dunder in (
        (aten.bitwise_left_shift, aten.__lshift__),
        (aten.bitwise_right_shift, aten.__rshift__),
    ):
        found += [
            bitwise.Tensor(x, y),
            bitwise.Tensor_Scalar(x, 2),
            bitwise.Scalar_Tensor(3, y.abs()),
            dunder.Tensor(x, y.abs()),
            dunder.Scalar(x, 2),
        ]
    return found


ROWS = [
    *(Row(f"aten::{name}.Tensor", opinfo=name) for name in ("eq", *COMPARISONS)),
    Row(
        (
            "aten::eq.Scalar",
            *(f"aten::{name}.Scalar" for name in COMPARISONS),
            *(f"aten::{name}.Scalar" for name in COMPARISONS.values()),
            *(f"aten::{name}.Tensor" for name in COMPARISONS.values()),
        ),
        name="comparisons",
        cases=(
            Case(all_comparisons, WITH_NAN),
            Case(all_comparisons, integers(3, 4, dtype=torch.int32)),
        ),
    ),
    *(Row(f"aten::{name}", opinfo=name) for name in ("logical_and", "logical_or", "logical_xor")),
    *(
        Row(f"aten::bitwise_{name}.Tensor", opinfo=f"bitwise_{name}")
        for name in ("and", "or", "xor")
    ),
    Row(
        tuple(
            key
            for name in ("and", "or", "xor")
            for key in (
                f"aten::bitwise_{name}.Scalar",
                f"aten::bitwise_{name}.Scalar_Tensor",
                f"aten::__{name}__.Tensor",
                f"aten::__{name}__.Scalar",
            )
        ),
        name="bit operations",
        cases=(
            Case(bit_operations, integers(3, 4, dtype=torch.int8), integers(3, 4, seed=1)),
            Case(bit_operations, bools(3, 4), bools(3, 4, seed=1)),
        ),
    ),
    Row(
        tuple(
            key
            for name, dunder in (("left", "lshift"), ("right", "rshift"))
            for key in (
                f"aten::bitwise_{name}_shift.Tensor",
                f"aten::bitwise_{name}_shift.Tensor_Scalar",
                f"aten::bitwise_{name}_shift.Scalar_Tensor",
                f"aten::__{dunder}__.Tensor",
                f"aten::__{dunder}__.Scalar",
            )
        ),
        name="shifts",
        cases=(
            *(
                Case(shifts, *(tensor.to(dtype) for tensor in SHIFTED))
                for dtype in (torch.int8, torch.int32, torch.int64)
            ),
            Case(
                shifts,
                integers(6, low=0, dtype=torch.uint8),
                integers(6, low=0, high=8, dtype=torch.uint8),
            ),
        ),
    ),
    Row("aten::where.self", opinfo="where"),
    Row(
        ("aten::where.ScalarSelf", "aten::where.ScalarOther", "aten::where.Scalar"),
        name="where of numbers",
        cases=(
            Case(
                lambda condition, x: (
                    aten.where.ScalarSelf(condition, 0.1, x),
                    aten.where.ScalarOther(condition, x, 2),
                    aten.where.Scalar(condition, 1, 2.5),
                ),
                bools(3, 4),
                floats(3, 4, dtype=torch.float64),
            ),
        ),
    ),
    Row(
        ("aten::masked_fill.Scalar", "aten::masked_fill.Tensor"),
        name="masked_fill",
        cases=(
            Case(
                lambda x, mask: (
                    aten.masked_fill.Scalar(x, mask, -math.inf),
                    aten.masked_fill.Tensor(x, mask, torch.tensor(2)),
                ),
                floats(3, 4),
                bools(3, 1),
            ),
            Case(lambda x, mask: aten.masked_fill.Scalar(x, mask, 3), integers(4), bools(2, 4)),
        ),
    ),
    Row(
        "aten::clamp",
        cases=(
            Case(lambda x: aten.clamp(x, 0, 2), WITH_NAN),
            Case(lambda x: aten.clamp(x, 2, 0), WITH_NAN),
            Case(lambda x: aten.clamp(x, None, 0.5), WITH_NAN),
            Case(lambda x: aten.clamp(x, 1), integers(3, 4)),
            Case(lambda x: aten.clamp(x, 0.5, 2), integers(3, 4)),
            Case(lambda x: aten.clamp(x, -1, 2), integers(3, 4, dtype=torch.int8)),
        ),
    ),
    Row("aten::clamp.Tensor", opinfo="clamp"),
    Row("aten::clamp_min.Tensor", opinfo="clamp_min"),
    Row("aten::clamp_max.Tensor", opinfo="clamp_max"),
    Row(
        ("aten::clip", "aten::clip.Tensor", "aten::clamp_min", "aten::clamp_max"),
        name="forms of clamp",
        cases=(
            Case(
                lambda x, low: (
                    aten.clip(x, 0, 1),
                    aten.clip.Tensor(x, low, None),
                    aten.clamp_min(x, 0.5),
                    aten.clamp_max(x, 0.5),
                ),
                WITH_NAN,
                torch.tensor([0.0, math.nan, 1.0, 5.0, 2.0]),
            ),
        ),
    ),
]
