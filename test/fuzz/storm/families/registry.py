"""The list of families."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from storm.maker import Maker

Make = Callable[[Maker], bool]


@dataclasses.dataclass(frozen=True)
class Family:
    """One kind of statement.

    Attributes:
        make: Adds a statement; returns False or raises NothingError if it cannot.
        weight: Its relative frequency.
        flavors: The flavors of programs that may use it.
    """

    make: Make
    weight: float
    flavors: tuple[str, ...]


FAMILIES: list[Family] = []


def family(
    weight: float = 1, flavors: tuple[str, ...] = ("any", "fx", "scripted")
) -> Callable[[Make], Make]:
    """Registers a function that adds a statement."""

    def register(make: Make) -> Make:
        FAMILIES.append(Family(make, weight, flavors))
        return make

    return register


def assign(maker: Maker, text: str, prefix: str = "t") -> bool:
    """Adds a statement that assigns an expression to a new name."""
    return maker.assign(text, prefix)
