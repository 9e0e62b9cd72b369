"""NumPy's functions of one or two numbers, which a recorded program calls with sizes.

As in eager, the results of ``np.sqrt(n)`` and ``np.ceil(n / 2)`` are floats.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

_SYMBOLIC = (torch.SymInt, torch.SymFloat)
_NUMBERS = (*_SYMBOLIC, int, float)


def replacements() -> list[tuple[Any, str, Any]]:
    """Returns the methods as (owner, name, method).

    NumPy asks its arguments for this method (NEP 13), so that its functions stay what they are for
    other threads and for libraries written in C.
    """
    return [(owner, "__array_ufunc__", _call) for owner in _SYMBOLIC]


def _call(self: Any, function: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
    if function in _DIVISIONS and any(map(_is_short, inputs)):
        raise TypeError(f"{function.__name__} of a size in {inputs} is not computed in double")
    symbolic = _FUNCTIONS.get(function)
    if symbolic is not None and method == "__call__" and not options:
        numbers = [value.item() if isinstance(value, np.generic) else value for value in inputs]
        if all(type(number) in _NUMBERS for number in numbers):
            return symbolic(*numbers)
    return getattr(function, method)(*map(_as_array, inputs), **options)


def _is_short(value: Any) -> bool:
    """Whether NumPy computes in this number's precision, which is less than that of a size."""
    return isinstance(value, np.floating) and value.itemsize < 8


def _as_array(value: Any) -> Any:
    """Wraps a symbolic number in an array of objects: NumPy calls a method of its class."""
    return np.array(value, dtype=object) if type(value) in _SYMBOLIC else value


def _rounding(plain: Callable[[Any], Any], function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Results are floats, except that of an integer if the installed NumPy keeps integers."""
    keeps_integers = isinstance(plain(1), np.integer)

    def rounded(number: Any) -> Any:
        if keeps_integers and isinstance(number, torch.SymInt):
            return number
        return torch.sym_float(function(number))

    return rounded


# Their results jump where rounding moves a number.
_DIVISIONS = (np.floor_divide, np.remainder, np.divmod)
# The functions of math are looked up when they are called: a capture replaces them.
_FUNCTIONS: dict[np.ufunc, Callable[..., Any]] = {
    np.absolute: abs,
    np.ceil: _rounding(np.ceil, lambda number: math.ceil(number)),
    np.cos: lambda number: math.cos(number),
    np.exp: lambda number: math.exp(number),
    np.floor: _rounding(np.floor, lambda number: math.floor(number)),
    np.log: lambda number: math.log(number),
    np.log10: lambda number: math.log10(number),
    np.log2: lambda number: math.log2(number),
    np.maximum: torch.sym_max,
    np.minimum: torch.sym_min,
    np.rint: _rounding(np.rint, round),
    np.sin: lambda number: math.sin(number),
    np.sqrt: lambda number: math.sqrt(number),
    np.tanh: lambda number: math.tanh(number),
    np.trunc: _rounding(np.trunc, lambda number: math.trunc(number)),
}
