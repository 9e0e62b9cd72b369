"""Statements from templates with random placeholders."""

from __future__ import annotations

import string
from collections.abc import Callable
from typing import Any

import torch

from storm.families.registry import assign
from storm.maker import FLOATS, INTEGERS, Maker, NothingError


class Slots(dict[str, str]):
    """The values of a template's placeholders; each is drawn once per statement.

    `{x}` is the operand; `{y}` and `{z}` broadcast with it, `{same}` has its dtype and shape,
    `{like}` its rank and dtype, `{out}` is one of the program's own tensors. `{axis}` and `{axis2}`
    are axes of x, `{size}` a size, `{int}` an integer of the program or a literal, `{number}` a
    literal for x's dtype, `{index}` indices for `{axis}`, `{mask}` a mask over x.
    """

    def __init__(self, maker: Maker, x: str) -> None:
        super().__init__(x=x)
        self._maker = maker

    def filled(self, template: str) -> str:
        """Returns the template with its placeholders filled in."""
        return string.Formatter().vformat(template, (), self)

    def __missing__(self, name: str) -> str:
        self[name] = str(_DRAWS[name](self._maker, self))
        return self[name]


def _like(maker: Maker, slots: Slots) -> str:
    x = maker.value(slots["x"])
    return maker.tensor(lambda other: other.dim() == x.dim() and other.dtype == x.dtype)


def _vector(maker: Maker, slots: Slots) -> str:
    dtype = maker.value(slots["x"]).dtype
    return maker.tensor(lambda other: other.dim() == 1 and other.dtype == dtype)


def _matrix(maker: Maker, slots: Slots) -> str:
    dtype = maker.value(slots["x"]).dtype
    return maker.tensor(lambda other: other.dim() == 2 and other.dtype == dtype)


def _size(maker: Maker, slots: Slots) -> str:
    name = maker.tensor(lambda x: x.dim() > 0)
    return f"{name}.size({maker.dim(name)})"


def _index(maker: Maker, slots: Slots) -> str:
    from storm.families.indexing import index_tensor

    return index_tensor(maker, maker.least(slots["x"], int(slots["axis"])))


def _mask(maker: Maker, slots: Slots) -> str:
    from storm.families.indexing import mask_of

    return mask_of(maker, slots["x"])


def _axis(maker: Maker, slots: Slots) -> int:
    return maker.dim(slots["x"])


_DRAWS: dict[str, Callable[[Maker, Slots], Any]] = {
    "y": lambda maker, slots: maker.mate(slots["x"]),
    "z": lambda maker, slots: maker.mate(slots["x"]),
    "same": lambda maker, slots: maker.alike(slots["x"]),
    "like": _like,
    "vector": _vector,
    "matrix": _matrix,
    "operand": lambda maker, slots: maker.operand(slots["x"]),
    "bool": lambda maker, slots: maker.mate(slots["x"], lambda x: x.dtype is torch.bool),
    "axis": _axis,
    "axis2": _axis,
    "size": _size,
    "int": lambda maker, slots: maker.pick(*maker.integers(), 1, 2, 3),
    "number": lambda maker, slots: maker.number(maker.value(slots["x"]).dtype),
    "number2": lambda maker, slots: maker.number(maker.value(slots["x"]).dtype),
    "shift": lambda maker, slots: maker.pick(0, 1, 2, 3, 5),
    "dtype": lambda maker, slots: maker.dtype(),
    "real_dtype": lambda maker, slots: maker.dtype(of=(*FLOATS, *INTEGERS)),
    "float_dtype": lambda maker, slots: maker.pick("torch.float32", "torch.float64"),
    "keep": lambda maker, slots: maker.pick("True", "False"),
    "index": _index,
    "mask": _mask,
    "reduction": lambda maker, slots: maker.pick("'mean'", "'sum'", "'none'"),
    "reduce": lambda maker, slots: maker.pick("'sum'", "'prod'", "'amax'", "'amin'", "'mean'"),
    "rounding": lambda maker, slots: maker.pick("'floor'", "'trunc'", "None"),
    "flag": lambda maker, slots: maker.pick("True", "False"),
    "order": lambda maker, slots: maker.pick(1, 2, 3, 0, "float('inf')", "-float('inf')", 0.5),
    "k": lambda maker, slots: maker.pick(1, 2, 3),
    "offset": lambda maker, slots: maker.pick(-2, -1, 0, 1, 2),
    "rank": lambda maker, slots: maker.value(slots["x"]).dim(),
    "indexes": lambda maker, slots: _indexes(maker, slots["x"]),
}


def _indexes(maker: Maker, name: str) -> str:
    from storm.families.indexing import index_text

    return index_text(maker, name)


def lines(text: str) -> tuple[str, ...]:
    """Returns templates, one per line."""
    return tuple(text.strip().splitlines())


def blocks(text: str) -> tuple[str, ...]:
    """Returns templates of several lines, separated by empty lines."""
    return tuple(block.strip("\n") for block in text.split("\n\n"))


def filled(maker: Maker, template: str, x: str) -> str:
    """Returns the template with an operand and its other placeholders filled in."""
    return Slots(maker, x).filled(template)


def choose(maker: Maker, x: str, *templates: str) -> bool:
    """Adds a statement from one of the templates, which computes a value or writes to a tensor."""
    return assign(maker, filled(maker, maker.random.choice(templates), x))


def write(maker: Maker, x: str, *templates: str) -> bool:
    """Adds a statement that writes; its value, if any, gets no name."""
    return maker.add(filled(maker, maker.random.choice(templates), x))


def pair(maker: Maker, x: str, template: str, count: int = 2) -> bool:
    """Adds a statement that names several results."""
    names = [maker.fresh() for _ in range(count)]
    return maker.add(f"{', '.join(names)} = {filled(maker, template, x)}", *names)


def need(is_right: bool) -> None:
    """Abandons the statement unless the condition holds."""
    if not is_right:
        raise NothingError
