"""Rows of csrc/ops/math/binary.cpp."""

import math
from collections.abc import Callable

import torch

from ops.row import Case, Row, bools, floats, integers

aten = torch.ops.aten
INF, NAN = math.inf, math.nan

# All pairs of these: every combination of signs, zeros, infinities and NaN.
SPECIAL = torch.tensor([NAN, INF, -INF, -0.0, 0.0, 1.5, -2.5, 3.0])
PAIRS = tuple(pair.reshape(-1) for pair in torch.meshgrid(SPECIAL, SPECIAL, indexing="ij"))
DIVISIBLE = torch.tensor([-7, -6, 7, 6, 1, 0]), torch.tensor([2, -4, -2, 4, 3, 5])
POSITIVE = floats(3, 4).abs() + 0.1


def of_special(function: Callable[..., torch.Tensor]) -> Case:
    return Case(function, *PAIRS)


def divisions(x: torch.Tensor, y: torch.Tensor) -> list[torch.Tensor]:
    """All operators that round a quotient."""
    return [
        aten.div.Tensor_mode(x, y, rounding_mode="floor"),
        aten.div.Tensor_mode(x, y, rounding_mode="trunc"),
        aten.div.Tensor_mode(x, y, rounding_mode=None),
        aten.divide.Tensor_mode(x, y, rounding_mode="floor"),
        aten.div.Scalar_mode(x, 3, rounding_mode="floor"),
        aten.divide.Scalar_mode(x, -3, rounding_mode="trunc"),
    ]


ROWS = [
    Row(
        "aten::add.Tensor",
        opinfo="add",
        cases=(
            Case(lambda x, y: aten.add.Tensor(x, y, alpha=2), integers(3, 4), floats(3, 4)),
            Case(lambda x: aten.add.Tensor(x, 2.5), integers(3, 4)),
            Case(lambda x, y: aten.add.Tensor(x, y), floats(2, dtype=torch.float16), floats()),
            Case(lambda x, y: aten.add.Tensor(x, y), integers(3, 2, dtype=torch.int8), integers(2)),
        ),
    ),
    Row("aten::sub.Tensor", opinfo="sub"),
    Row("aten::rsub.Tensor", opinfo="rsub"),
    Row("aten::mul.Tensor", opinfo="mul"),
    Row("aten::div.Tensor", opinfo="div", variant="no_rounding_mode"),
    Row(
        (
            "aten::add.Scalar",
            "aten::sub.Scalar",
            "aten::rsub.Scalar",
            "aten::mul.Scalar",
            "aten::div.Scalar",
        ),
        name="arithmetic with numbers",
        cases=(
            Case(
                lambda x: (
                    aten.add.Scalar(x, 2, 3),
                    aten.sub.Scalar(x, 2.5),
                    aten.rsub.Scalar(x, 2, 3),
                    aten.mul.Scalar(x, 3),
                    aten.div.Scalar(x, 2),
                ),
                integers(3, 4),
            ),
        ),
    ),
    Row(
        (
            "aten::subtract.Tensor",
            "aten::subtract.Scalar",
            "aten::multiply.Tensor",
            "aten::multiply.Scalar",
            "aten::divide.Tensor",
            "aten::divide.Scalar",
            "aten::true_divide.Tensor",
            "aten::true_divide.Scalar",
        ),
        name="aliases of arithmetic operators",
        cases=(
            Case(
                lambda x, y: (
                    aten.subtract.Tensor(x, y),
                    aten.subtract.Scalar(x, 2),
                    aten.multiply.Tensor(x, y),
                    aten.multiply.Scalar(x, 3),
                    aten.divide.Tensor(x, y),
                    aten.divide.Scalar(x, 3),
                    aten.true_divide.Tensor(x, y),
                    aten.true_divide.Scalar(x, 3),
                ),
                floats(3, 4),
                POSITIVE,
            ),
        ),
    ),
    Row("aten::div.Tensor_mode", opinfo="div", variant="floor_rounding"),
    Row(
        (
            "aten::divide.Tensor_mode",
            "aten::div.Scalar_mode",
            "aten::divide.Scalar_mode",
        ),
        name="rounded divisions",
        cases=(Case(divisions, *DIVISIBLE), Case(divisions, *PAIRS)),
    ),
    Row("aten::floor_divide", opinfo="floor_divide", cases=(of_special(aten.floor_divide),)),
    Row(
        "aten::floor_divide.Scalar",
        cases=(Case(lambda x: aten.floor_divide.Scalar(x, -3), DIVISIBLE[0]),),
    ),
    Row("aten::remainder.Tensor", opinfo="remainder", cases=(of_special(aten.remainder.Tensor),)),
    Row("aten::fmod.Tensor", opinfo="fmod", cases=(of_special(aten.fmod.Tensor),)),
    Row(
        ("aten::remainder.Scalar", "aten::remainder.Scalar_Tensor", "aten::fmod.Scalar"),
        name="remainders of numbers",
        cases=tuple(
            Case(
                lambda x: (
                    aten.remainder.Scalar(x, -3),
                    aten.remainder.Scalar_Tensor(-7, x.abs() + 2),
                    aten.fmod.Scalar(x, -3),
                ),
                x,
            )
            for x in (DIVISIBLE[0], floats(3, 4) * 9)
        ),
    ),
    Row("aten::pow.Tensor_Tensor", opinfo="pow", cases=(of_special(aten.pow.Tensor_Tensor),)),
    Row(
        "aten::pow.Tensor_Scalar",
        cases=(
            *(
                Case(lambda x, n=n: aten.pow.Tensor_Scalar(x, n), POSITIVE)
                for n in (0, 1, 2, 3, -1, 0.5, -0.5, -2.5)
            ),
            *(
                Case(lambda x, n=n: aten.pow.Tensor_Scalar(x, n), integers(3, 4))
                for n in (0, 1, 2, 5, 43, 0.5)
            ),
        ),
    ),
    Row(
        "aten::pow.Scalar",
        cases=(
            Case(lambda x: aten.pow.Scalar(2, x), floats(3, 4)),
            Case(lambda x: aten.pow.Scalar(-1, x), integers(3, 4)),
            Case(lambda x: aten.pow.Scalar(3, x), integers(3, 4, low=30, high=99)),
            Case(lambda x: aten.pow.Scalar(2.5, x), integers(3, 4)),
        ),
    ),
    Row("aten::float_power.Tensor_Tensor", opinfo="float_power"),
    Row(
        ("aten::float_power.Tensor_Scalar", "aten::float_power.Scalar"),
        cases=(
            Case(
                lambda x: (aten.float_power.Tensor_Scalar(x, 3), aten.float_power.Scalar(0.1, x)),
                integers(3, 4),
            ),
        ),
    ),
    Row("aten::atan2", opinfo="atan2", cases=(of_special(aten.atan2),)),
    Row("aten::arctan2", cases=(of_special(aten.arctan2),)),
    Row("aten::hypot", opinfo="hypot", cases=(of_special(aten.hypot),)),
    Row("aten::maximum", opinfo="maximum", cases=(of_special(aten.maximum),)),
    Row("aten::minimum", opinfo="minimum", cases=(of_special(aten.minimum),)),
    Row("aten::max.other", opinfo="max", variant="binary"),
    Row("aten::min.other", opinfo="min", variant="binary"),
    Row("aten::fmax", opinfo="fmax", cases=(of_special(aten.fmax),)),
    Row("aten::fmin", opinfo="fmin", cases=(of_special(aten.fmin),)),
    Row("aten::logaddexp", opinfo="logaddexp", cases=(of_special(aten.logaddexp),)),
    Row("aten::logaddexp2", opinfo="logaddexp2", cases=(of_special(aten.logaddexp2),)),
    Row("aten::xlogy.Tensor", opinfo="xlogy", cases=(of_special(aten.xlogy.Tensor),)),
    Row("aten::special_xlog1py", opinfo="special.xlog1py"),
    Row(
        (
            "aten::xlogy.Scalar_Self",
            "aten::xlogy.Scalar_Other",
            "aten::special_xlogy",
            "aten::special_xlogy.self_scalar",
            "aten::special_xlogy.other_scalar",
            "aten::special_xlog1py.self_scalar",
            "aten::special_xlog1py.other_scalar",
        ),
        name="x log y of numbers",
        cases=(
            Case(
                lambda x: (
                    aten.xlogy.Scalar_Self(2, x),
                    aten.xlogy.Scalar_Other(x, 2),
                    aten.special_xlogy(x, x),
                    aten.special_xlogy.self_scalar(0, x),
                    aten.special_xlogy.other_scalar(x, 0.5),
                    aten.special_xlog1py.self_scalar(2, x),
                    aten.special_xlog1py.other_scalar(x, 0.5),
                ),
                torch.tensor([0.0, 0.5, 2.0, INF, NAN]),
            ),
        ),
    ),
    Row("aten::copysign.Tensor", opinfo="copysign", cases=(of_special(aten.copysign.Tensor),)),
    Row(
        "aten::copysign.Scalar",
        cases=(Case(lambda x: aten.copysign.Scalar(x, -2), integers(3, 4)),),
    ),
    Row("aten::ldexp.Tensor", opinfo="ldexp"),
    Row("aten::addcmul", opinfo="addcmul"),
    Row("aten::addcdiv", opinfo="addcdiv"),
    Row(
        "aten::lerp.Scalar",
        cases=(
            Case(lambda x, y: aten.lerp.Scalar(x, y, 0.3), floats(3, 4), floats(3, 4, seed=1)),
            Case(lambda x, y: aten.lerp.Scalar(x, y, 0.7), floats(3, 4), floats(4, seed=1)),
        ),
    ),
    Row(
        "aten::lerp.Tensor",
        opinfo="lerp",
        cases=(Case(aten.lerp.Tensor, floats(3, 4), floats(3, 4, seed=1), floats(3, 4, seed=2)),),
    ),
    Row(
        "aten::heaviside",
        opinfo="heaviside",
        cases=(of_special(aten.heaviside), Case(aten.heaviside, bools(4), bools(4, seed=1))),
    ),
    Row(
        "aten::isclose",
        opinfo="isclose",
        cases=(
            of_special(aten.isclose),
            Case(lambda x, y: aten.isclose(x, y, equal_nan=True), *PAIRS),
        ),
    ),
]
