"""Numbers that fit or exceed an integer dtype, as arguments of every operator, against eager.

Eager wraps the number, promotes, or raises an error; cases with an error are left out.
"""

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from models import routes

Number = int | float
Operator = Callable[[torch.Tensor, Any], torch.Tensor]

INTEGERS = (
    *(0, 1, -2, 3, 8, 127, 255, 256, 300, -129),
    *(2**31, -(2**31) - 1, 2**40 + 3, 2**53 + 1, 2**63 - 1, -(2**63)),
)
FLOATS = (0.5, -3.0, 127.5, 300.5, float("inf"))
DTYPES = [
    *(torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64),
    *(torch.bool, torch.uint16, torch.uint32, torch.uint64),
]


def masked(x: torch.Tensor) -> torch.Tensor:
    return x != x[0]


def set_masked(x: torch.Tensor, n: Number) -> torch.Tensor:
    y = x.clone()
    y[masked(x)] = n
    return y


def set_slice(x: torch.Tensor, n: Number) -> torch.Tensor:
    y = x.clone()
    y[1:3] = n
    return y


ONE = torch.tensor([1])
OPERATORS: dict[str, Operator] = {
    "add": lambda x, n: x + n,
    "sub": lambda x, n: x - n,
    "rsub": lambda x, n: n - x,
    "mul": lambda x, n: x * n,
    "div": lambda x, n: x / n,
    "div of a number": lambda x, n: n / x,
    "floor_divide": lambda x, n: x // n,
    "floor_divide of a number": lambda x, n: n // x,
    "div trunc": lambda x, n: torch.div(x, n, rounding_mode="trunc"),
    "remainder": lambda x, n: x % n,
    "remainder of a number": lambda x, n: torch.remainder(n, x),
    "fmod": torch.fmod,
    "pow": lambda x, n: x**n,
    "pow of a number": lambda x, n: torch.pow(n, x),
    "float_power": torch.float_power,
    "eq": lambda x, n: x == n,
    "ne": lambda x, n: x != n,
    "lt": lambda x, n: x < n,
    "le": lambda x, n: x <= n,
    "gt": lambda x, n: x > n,
    "ge": lambda x, n: x >= n,
    "and": lambda x, n: x & n,
    "or": lambda x, n: x | n,
    "xor": lambda x, n: x ^ n,
    "left shift": lambda x, n: x << n,
    "right shift": lambda x, n: x >> n,
    "left shift of a number": lambda x, n: torch.bitwise_left_shift(n, x),
    "right shift of a number": lambda x, n: torch.bitwise_right_shift(n, x),
    "clamp min": lambda x, n: x.clamp(min=n),
    "clamp max": lambda x, n: x.clamp(max=n),
    "clamp from": lambda x, n: x.clamp(n, 3),
    "clamp to": lambda x, n: torch.clamp(x, -1, n),
    "clamp_min": torch.clamp_min,
    "clamp_max": torch.clamp_max,
    "clamp by tensors": lambda x, n: torch.clamp(x, torch.tensor(n), torch.tensor(3)),
    "fill": lambda x, n: x.clone().fill_(n),
    "full_like": torch.full_like,
    "new_full": lambda x, n: x.new_full((2,), n),
    "full": lambda x, n: torch.full((2,), n, dtype=x.dtype),
    "masked_fill": lambda x, n: x.masked_fill(masked(x), n),
    "where other": lambda x, n: torch.where(masked(x), x, n),
    "where self": lambda x, n: torch.where(masked(x), n, x),
    "threshold": lambda x, n: F.threshold(x, n, 1),
    "threshold value": lambda x, n: F.threshold(x, 1, n),
    "hardtanh": lambda x, n: F.hardtanh(x, -2, n),
    # The schema declares a float, so 2**63 - 1 becomes 2**63.
    "pad": lambda x, n: F.pad(x, (1, 2), value=min(n, 2**62)),
    "pad by nothing": lambda x, n: F.pad(x, (0, 0), value=n),
    "crop": lambda x, n: F.pad(x, (-1, 2), value=min(n, 2**62)),
    "alpha of add": lambda x, n: torch.add(x, x, alpha=n),
    "alpha of sub": lambda x, n: torch.sub(x, x, alpha=n),
    "alpha of rsub": lambda x, n: torch.rsub(x, x, alpha=n),
    "addcmul": lambda x, n: torch.addcmul(x, x, x, value=n),
    "index_fill": lambda x, n: x.index_fill(0, ONE, n),
    "scatter": lambda x, n: x.scatter(0, ONE, n),
    "scatter add": lambda x, n: x.scatter(0, ONE, n, reduce="add"),
    "set masked": set_masked,
    "set slice": set_slice,
    "isin": torch.isin,
    "xlogy": torch.xlogy,
    "copysign": torch.copysign,
    "fill_diagonal": lambda x, n: x.reshape(-1, 1).expand(-1, 3).clone().fill_diagonal_(n),
    "0-d add": lambda x, n: x + torch.tensor(n),
    "0-d mul": lambda x, n: x * torch.tensor(n),
    "0-d less": lambda x, n: x < torch.tensor(n),
    "0-d equal": lambda x, n: x == torch.tensor(n),
    "0-d maximum": lambda x, n: torch.maximum(x, torch.tensor(n)),
    "0-d minimum": lambda x, n: torch.minimum(x, torch.tensor(n)),
    "0-d where": lambda x, n: torch.where(masked(x), x, torch.tensor(n)),
    "0-d masked_fill": lambda x, n: x.masked_fill(masked(x), torch.tensor(n)),
    "0-d floor_divide": lambda x, n: x // torch.tensor(n),
    "0-d pow": lambda x, n: x ** torch.tensor(n),
    "0-d and": lambda x, n: x & torch.tensor(n),
    "0-d shift": lambda x, n: x << torch.tensor(n),
    "addmm": lambda x, n: torch.addmm(x[None], x[:1, None], x[None], alpha=n),
    "addmm beta": lambda x, n: torch.addmm(x[None], x[:1, None], x[None], beta=n),
    "cumsum": lambda x, n: x.cumsum(0) + n,
    "sum": lambda x, n: x.sum() + n,
    "arange": lambda x, n: torch.arange(n, n + 3, dtype=x.dtype) + x[:3],
    "heaviside": lambda x, n: torch.heaviside(x, x.new_full((), n)),
    "add_": lambda x, n: x.clone().add_(n),
    "mul_": lambda x, n: x.clone().mul_(n),
    "floor_divide_": lambda x, n: x.clone().floor_divide_(n),
    "remainder_": lambda x, n: x.clone().remainder_(n),
    "pow_": lambda x, n: x.clone().pow_(n),
    "ge_": lambda x, n: x.clone().ge_(n),
    "clamp_": lambda x, n: x.clone().clamp_(n, 100),
    "neg": lambda x, n: -(x + n),
    "abs": lambda x, n: (x + n).abs(),
    "constant": lambda x, n: torch.tensor([n, 1]).to(x.dtype) + x[:2],
}


def values_of(dtype: torch.dtype) -> torch.Tensor:
    """Ordinary and extreme numbers; without -2**31 and -2**63, whose `// -1` crashes eager."""
    if dtype is torch.bool:
        return torch.tensor([True, False, True, True])
    if dtype is torch.uint64:
        return torch.tensor([0, 1, 2, 5, 100, 2**62]).to(dtype)
    ends = torch.iinfo(dtype)
    least = ends.min + (dtype in (torch.int32, torch.int64))
    return torch.tensor([least, 0, 1, 2, 5, 100, ends.max - 1, ends.max], dtype=dtype)


def fits(x: torch.Tensor, n: Number) -> bool:
    """Floats beyond int64 are left out: eager's conversion is undefined."""
    return not isinstance(n, float) or abs(n) < 2**31 or x.dtype.is_floating_point


def takes(operator: Operator, x: torch.Tensor, n: Number) -> bool:
    try:
        result = operator(x.clone(), n)
    except (RuntimeError, TypeError, OverflowError, ZeroDivisionError, ValueError):
        return False
    return result.dtype.is_floating_point or fits(x, n)


def program(dtype: torch.dtype) -> tuple[list[str], Callable[..., Any]]:
    """Yields all operators with all numbers that eager accepts, and their names."""
    calls = [
        (name, operator, n)
        for name, operator in OPERATORS.items()
        for n in (*INTEGERS, *FLOATS)
        if takes(operator, values_of(dtype), n)
    ]
    names = [f"{name} {n}" for name, _, n in calls]
    return names, lambda x: tuple(operator(x, n) for _, operator, n in calls)


CASES = [(dtype, "trace") for dtype in DTYPES]
CASES += [(torch.uint8, "fx"), (torch.int64, "pt2")]


@pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning")
@pytest.mark.parametrize(("dtype", "route"), CASES, ids=str)
def test_against_eager(dtype: torch.dtype, route: str) -> None:
    x = values_of(dtype)
    names, function = program(dtype)
    assert len(names) > 500
    results = routes.run(routes.session(routes.export(function, (x,), route)), (x,))
    wrong = []
    for name, result, wanted in zip(names, results, function(x), strict=True):
        try:
            routes.assert_same(result, wanted)
        except AssertionError as error:
            wrong.append(f"{name}: {error}")
    assert not wrong, "\n".join(wrong[:5])
