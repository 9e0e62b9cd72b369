"""Rows of csrc/ops/math/numbers.cpp."""

import math
from collections.abc import Callable
from typing import Any

import torch

from ops.row import Case, Row, floats, integers

INF, NAN = math.inf, math.nan
INTEGERS = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)
FLOATS = (torch.float32, torch.float64, torch.float16, torch.bfloat16)


def integer_cases(function: Callable[..., Any]) -> tuple[Case, ...]:
    """Zeros, negative numbers, and the pair that takes the most steps."""
    fibonacci = torch.tensor([7540113804746346429, 4660046610375530309, 0, -6])
    return (
        *(
            Case(function, integers(4, 5, low=-40, dtype=d), integers(5, seed=1, dtype=d))
            for d in INTEGERS
        ),
        Case(function, fibonacci, fibonacci.flip(0)),
        Case(function, integers(0, 3), integers(3)),
    )


# Powers of two and their neighbors, subnormal and extreme numbers.
NUMBERS = torch.tensor(
    [
        *(0.0, -0.0, 1.0, -1.0, 2.0, 0.5, 0.75, -3.3, 1e-3, 8.0, 1023.5, 65504.0, 3.4e38, -3.4e38),
        *(1e-38, 1.1754943508222875e-38, 2.350988701644575e-38, 1e-45, -1e-42, INF, -INF, NAN),
    ]
)
WIDE = torch.tensor(
    [5e-324, -1e-310, 2.2250738585072014e-308, 4.450147717014403e-308, 1e-280, 1.7e308, -1e300],
    dtype=torch.float64,
)


def as_wide(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compares bfloat16 as float32, because NumPy has no bfloat16."""

    def wide(*tensors: torch.Tensor) -> list[torch.Tensor]:
        results = function(*(tensor.bfloat16() for tensor in tensors))  # type: ignore[operator]
        results = results if isinstance(results, tuple) else (results,)
        return [result.float() if result.is_floating_point() else result for result in results]

    return wide


def float_cases(function: Callable[..., Any], *others: torch.Tensor) -> tuple[Case, ...]:
    """Returns cases in all dtypes; `others` are further arguments."""
    return (
        *(Case(function, NUMBERS.to(d), *(o.to(d) for o in others)) for d in FLOATS[:3]),
        Case(as_wide(function), NUMBERS, *others),
        Case(function, WIDE, *(o.double()[:1] for o in others)),
    )


TOWARD = torch.tensor([[0.0], [INF], [-INF], [1.0], [NAN]])

ROWS = [
    Row("aten::gcd", opinfo="gcd", cases=integer_cases(torch.gcd)),
    Row("aten::lcm", opinfo="lcm", cases=integer_cases(torch.lcm)[:-2]),
    Row("aten::frexp.Tensor", opinfo="frexp", cases=float_cases(torch.frexp)),
    Row(
        "aten::nextafter",
        opinfo="nextafter",
        # Exact.
        tolerance={"float32": (0, 0), "float64": (0, 0), "float16": (0, 0)},
        cases=(
            *float_cases(torch.nextafter, TOWARD),
            Case(torch.nextafter, floats(3, 4), floats(4, seed=1)),
            Case(lambda x: torch.nextafter(x, x), NUMBERS),
        ),
    ),
]
