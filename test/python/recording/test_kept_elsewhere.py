"""Tensors and sizes that a program keeps where no export looks: they become those of eager."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Callable
from typing import Any

import pytest
import torch
from models.recording import exported
from torch import nn

table: dict[str, Any] = {}


class Positions:
    def __init__(self) -> None:
        self.size, self.values = -1, torch.zeros(0)

    def of(self, size: int) -> torch.Tensor:
        if self.size < size:
            self.values, self.size = torch.arange(size).float(), size
        return self.values[:size]


def in_a_table(size: int) -> torch.Tensor:
    if table["size"] < size:
        table["size"], table["values"] = size, torch.arange(size).float()
    return table["values"][:size]


def of_a_function(size: int) -> torch.Tensor:
    if keeper.size < size:  # type: ignore[attr-defined]
        keeper.size, keeper.values = size, torch.arange(size).float()  # type: ignore[attr-defined]
    return keeper.values[:size]  # type: ignore[attr-defined]


def keeper() -> None:
    pass


def of_an_object(size: int) -> torch.Tensor:
    return held.of(size)


held = Positions()


class Multiplies(nn.Module):
    def __init__(self, positions: Callable[[int], torch.Tensor]) -> None:
        super().__init__()
        self.positions = positions

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.positions(x.shape[1])


@pytest.mark.parametrize("positions", [in_a_table, of_a_function, of_an_object])
@pytest.mark.parametrize("size", [1, 3, 5])
def test_eager_is_right_afterwards(positions: Callable[[int], torch.Tensor], size: int) -> None:
    table.update(size=0, values=None)
    keeper.size, keeper.values = 0, None  # type: ignore[attr-defined]
    held.__init__()  # type: ignore[misc]
    module = Multiplies(positions).eval()
    program = None
    gc.unfreeze()  # Python does not find what refers to a size in objects that are frozen
    with contextlib.suppress(torch.onnx.OnnxExporterError):
        program = exported(module, (torch.randn(2, size),), ({0: "n", 1: "s"},))
    for each in (size, size + 2, 1, 2 * size):
        x = torch.randn(2, each)
        expected = x * torch.arange(each)
        torch.testing.assert_close(module(x), expected)
        if program is not None and each <= size:
            torch.testing.assert_close(program(x)[0], expected)
