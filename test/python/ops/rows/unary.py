"""Rows of csrc/ops/math/unary.cpp."""

import math

import torch

from ops.row import Case, Row, floats, integers

aten = torch.ops.aten
INF, NAN = math.inf, math.nan

SPECIAL = torch.tensor([NAN, INF, -INF, -0.0, 0.0, 1.5, -2.5, 0.5, 1e-8, -3e-6])
# OpInfos whose operator has the same name.
SAME_NAME = (
    *("exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sqrt", "rsqrt", "reciprocal"),
    *("sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh"),
    *("asinh", "acosh", "atanh", "sigmoid", "logit", "sinc", "deg2rad", "rad2deg"),
    *("abs", "neg", "sign", "sgn", "square", "angle", "nan_to_num"),
    *("ceil", "floor", "trunc", "frac", "isnan", "isinf", "isfinite", "isposinf", "isneginf"),
    *("isreal", "signbit"),
)
WITH_SPECIAL_VALUES = (
    *("log1p", "expm1", "sign", "sgn", "trunc", "angle", "isnan", "isinf", "isfinite"),
    *("isposinf", "isneginf", "signbit", "nan_to_num"),
)
# Aliases.
ALIASES = (
    *("arcsin", "arccos", "arctan", "arcsinh", "arccosh", "arctanh", "absolute", "negative", "fix"),
    *("special_expit", "special_exp2", "special_expm1"),
    *("special_log1p", "special_logit", "special_sinc"),
)


def special_case(name: str) -> tuple[Case, ...]:
    """Applies the operator to NaN, infinities, signed zeros and small numbers."""
    return (Case(getattr(aten, name), SPECIAL),) if name in WITH_SPECIAL_VALUES else ()


ROWS = [
    *(Row(f"aten::{name}", opinfo=name, cases=special_case(name)) for name in SAME_NAME),
    Row(
        tuple(f"aten::{name}" for name in ALIASES),
        name="aliases of unary operators",
        cases=(
            Case(
                lambda x: [getattr(aten, name)(x) for name in ALIASES],
                torch.tensor([0.1, 0.5, 0.9]),
            ),
        ),
    ),
    Row(
        "aten::round",
        opinfo="round",
        cases=(Case(aten.round, torch.tensor([0.5, 1.5, 2.5, -0.5, NAN, INF])),),
    ),
    Row(
        ("aten::round.decimals", "aten::special_round"),
        opinfo="round",
        variant="decimals_3",
        cases=(
            Case(lambda x: torch.special.round(x, decimals=2), floats(3, 4)),
            Case(lambda x: aten.round.decimals(x, decimals=-1), floats(3, 4) * 100),
            Case(lambda x: aten.round.decimals(x, decimals=1), torch.tensor([0.25, 0.75, -0.25])),
        ),
        # x * 1000 rounds in float16 before round() does.
        dtypes=("float32", "int64"),
    ),
    Row(
        ("aten::bitwise_not", "aten::logical_not"),
        name="not",
        cases=(
            Case(lambda x: (aten.bitwise_not(x), aten.logical_not(x)), integers(3, 4)),
            Case(
                lambda x: (aten.bitwise_not(x), aten.logical_not(x)),
                integers(3, 4, low=0, dtype=torch.uint8),
            ),
            Case(aten.bitwise_not, torch.tensor([True, False])),
            Case(aten.logical_not, SPECIAL),
        ),
    ),
]
