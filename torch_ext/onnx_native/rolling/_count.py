"""The number of steps of the loops of a program."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from onnx_native import _library


@dataclasses.dataclass(frozen=True)
class Count:
    """What loops count.

    Attributes:
        name: The number of steps: a size, "n", or an expression of one, "(n + 63)//64".
        symbol: The size.
        lowest: The least number of steps.
        axes: The axes of inputs, as (input, axis), whose size is the number of steps.
        size: Returns a size with which there are so many steps; None if there is none.
        place: An axis with the size.
    """

    name: str
    symbol: str
    lowest: int
    axes: Sequence[tuple[int, int]]
    size: Callable[[int], int | None]
    place: tuple[int, int]

    def steps(self, inputs: Sequence[Any]) -> Any:
        """The number of steps for some inputs."""
        place, axis = self.place
        return evaluated(self.name, {self.symbol: inputs[place].shape[axis]})


def evaluated(expression: str, sizes: Mapping[str, Any]) -> Any:
    """Evaluates an expression of sizes, as the recorder writes it."""
    functions = {"min": torch.sym_min, "max": torch.sym_max}
    return eval(expression, {"__builtins__": {}}, {**functions, **sizes})


def text_of(size: Any) -> str:
    """A size as text. It decides nothing, as a comparison would."""
    is_symbolic = isinstance(size, torch.SymInt)
    return str(_library.extension().text_of_size(size)) if is_symbolic else str(size)
