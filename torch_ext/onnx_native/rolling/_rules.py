"""The rules that numbers follow in the steps of a loop, at all lengths."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch

from onnx_native.rolling._calls import Size
from onnx_native.rolling._roles import NoLoopError, Number


def is_same(one: Any, other: Any) -> bool:
    """Whether two leaves are equal; NaN is equal to NaN."""
    return bool(one == other or (one != one and other != other))


def is_number(leaf: Any) -> bool:
    """Whether a leaf is an integer, which may follow from sizes."""
    return isinstance(leaf, Size) or (isinstance(leaf, int) and not isinstance(leaf, bool))


def number(leaves: Mapping[tuple[int, int], Any]) -> Number:
    """The rule of numbers that are given by the step and the length."""
    size = _size({key: leaf.of if isinstance(leaf, Size) else None for key, leaf in leaves.items()})
    values = {key: leaf.plus if isinstance(leaf, Size) else leaf for key, leaf in leaves.items()}
    by_step = _slope(values, lambda key: (key[1], key[0]))
    by_length = _slope(values, lambda key: key)
    (step, length), value = next(iter(values.items()))
    plus = value - by_step * step - by_length * length
    if any(by_step * s + by_length * n + plus != value for (s, n), value in values.items()):
        raise NoLoopError("a number in a loop follows no rule")
    return Number(size, by_step, by_length, plus)


def _size(sizes: Mapping[tuple[int, int], Any]) -> Any:
    """The rule of expressions of sizes, as Number.size has it."""
    some = next(iter(sizes.values()))
    if all(size == some for size in sizes.values()):
        return some
    if all(type(size) is int or isinstance(size, Size) for size in sizes.values()):
        return number(sizes)
    if all(type(size) is float and size.is_integer() for size in sizes.values()):
        return torch.sym_float, (number({key: int(size) for key, size in sizes.items()}),)
    are_calls = all(isinstance(size, tuple) and len(size) == len(some) for size in sizes.values())
    if not are_calls or len(some) != 2 or len({size[0] for size in sizes.values()}) != 1:
        raise NoLoopError("a number is a size in some recordings only")
    columns = zip(*(operands for _, operands in sizes.values()), strict=True)
    return some[0], tuple(_size(dict(zip(sizes, each, strict=True))) for each in columns)


def _slope(
    values: Mapping[tuple[int, int], int],
    split: Callable[[tuple[int, int]], tuple[int, int]],
) -> int:
    """How a number grows with one of two coordinates; `split` returns the other one first."""
    places: dict[int, tuple[int, int]] = {}
    for key, value in values.items():
        other, place = split(key)
        if other not in places:
            places[other] = place, value
        elif places[other][0] != place:
            start, before = places[other]
            slope, rest = divmod(value - before, place - start)
            if rest != 0:
                raise NoLoopError("a number in a loop follows no rule")
            return slope
    return 0
