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
    """Returns the functions as (owner, name, function)."""
    return [(np, name, _Function(getattr(np, name), f)) for name, f in _FUNCTIONS.items()]


class _Function:
    """A function of NumPy, which symbolic numbers are computed without. Has all of its methods."""

    def __init__(self, plain: Any, symbolic: Callable[..., Any]) -> None:
        self._plain = plain
        self._symbolic = symbolic

    def __call__(self, *args: Any, **options: Any) -> Any:
        kinds = [*map(type, args)]
        is_symbolic = any(kind in _SYMBOLIC for kind in kinds)
        if is_symbolic and not options and all(kind in _NUMBERS for kind in kinds):
            return self._symbolic(*args)
        return self._plain(*args, **options)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._plain, name)


def _absolute(number: Any) -> Any:
    return abs(number)


def _rounding(plain: Callable[[Any], Any], function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """The results are floats, but for integers where the NumPy that is installed keeps those."""
    keeps_integers = isinstance(plain(1), np.integer)

    def rounded(number: Any) -> Any:
        if keeps_integers and isinstance(number, torch.SymInt):
            return number
        return torch.sym_float(function(number))

    return rounded


# The functions of math are looked up when they are called: a capture replaces them.
_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "abs": _absolute,
    "absolute": _absolute,
    "ceil": _rounding(np.ceil, lambda number: math.ceil(number)),
    "cos": lambda number: math.cos(number),
    "exp": lambda number: math.exp(number),
    "floor": _rounding(np.floor, lambda number: math.floor(number)),
    "log": lambda number: math.log(number),
    "log10": lambda number: math.log10(number),
    "log2": lambda number: math.log2(number),
    "maximum": torch.sym_max,
    "minimum": torch.sym_min,
    "rint": _rounding(np.rint, round),
    "sin": lambda number: math.sin(number),
    "sqrt": lambda number: math.sqrt(number),
    "tanh": lambda number: math.tanh(number),
    "trunc": _rounding(np.trunc, lambda number: math.trunc(number)),
}
