"""A program, and the tables of programs."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import torch
from models.calling import Calling
from torch import nn

Function = Callable[..., Any]

BOTH = {0: "batch", 1: "n"}


def example(batch: int, n: int) -> tuple[torch.Tensor]:
    made = torch.Generator().manual_seed(100 * batch + n)
    return (torch.randn(batch, n, 4, generator=made),)


@dataclasses.dataclass(frozen=True)
class Program:
    """A program over one tensor of shape [batch, n, 4], or over what `inputs` makes.

    Attributes:
        module: Makes the module, fresh for each run, because programs may keep state.
        aside: The recorder leaves the program to torch.export. A recorder that learns to record it
            may do so; the program must then be right.
        random: The results have random elements, so that only their types are compared.
    """

    name: str
    module: Callable[[], nn.Module]
    inputs: Callable[[int, int], tuple[Any, ...]] = example
    shapes: Any = None
    aside: bool = False
    random: bool = False


class Table(list[Program]):
    """A list of programs, with decorators that add to it."""

    def program(self, function: Function | None = None, **options: Any) -> Any:
        """Adds a function of tensors."""
        if function is None:
            return lambda function: self.program(function, **options)
        self.append(Program(function.__name__, lambda: Calling(function).eval(), **options))
        return function

    def aside(self, function: Function) -> Function:
        """Adds a function of one tensor that the recorder may leave to torch.export."""
        self.program(function, aside=True)
        return function

    def module(self, make: Function | None = None, **options: Any) -> Any:
        """Adds a class of modules, or a function that makes a module."""
        if make is None:
            return lambda make: self.module(make, **options)
        self.append(Program(make.__name__, lambda: make().eval(), **options))
        return make
