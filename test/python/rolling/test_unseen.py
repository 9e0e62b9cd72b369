"""Decisions that no recording of a loop sees: counters and tables of the program's own."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pytest
import torch
from onnx_native.rolling import _unseen

GAINS = (1.0, 2.0)


def compared(rows: Any) -> Any:
    i = 0
    for row in rows:
        i = i + 1
        row = row * 2 if i > 100 else row


def compared_attribute(self: Any, rows: Any) -> Any:
    for row in rows:
        self.i = self.i + 1
        row = row * (2 if self.i > 100 else 1)


def in_a_while_with_another(n: Any) -> Any:
    i = 0
    while i < n and i < 100:
        i += 1


def as_a_condition(rows: Any) -> Any:
    left = 100
    for row in rows:
        left -= 1
        row = row if left else -row


def by_remainder(rows: Any) -> Any:
    i = 0
    for row in rows:
        i = i + 1
        row = row * (i % 100)


def limited(rows: Any) -> Any:
    i = 0
    for row in rows:
        i = i + 1
        row = row * min(2 * i, 100)


def own_table(rows: Any) -> Any:
    numbers, h = [1.0, 2.0], 0
    for t, row in enumerate(rows):
        h = h + row * numbers[t]


def global_table(rows: Any) -> Any:
    for t, row in enumerate(rows):
        row = row * GAINS[t]


def table_of_a_module(self: Any, rows: Any) -> Any:
    for t, row in enumerate(rows):
        row = row * self.gains[t + 1]


def literal_table(rows: Any) -> Any:
    for t, row in enumerate(rows):
        row = row * (1, 2, 3)[t]


def only_counted(x: Any, n: Any) -> Any:
    i, out = 0, []
    while i < n:
        out.append(x[:, i] * (2 * i + 1))
        i += 1
    return out


def constant_places(rows: Any) -> Any:
    sizes = [1, 2]
    return rows[0] * sizes[0] + rows[-1] * sizes[-1]


def lists_of_tensors(rows: Any) -> Any:
    found = [row * 2 for row in rows]
    return [found[t] for t in range(len(found))]


def places_of_constants(self: Any, rows: Any) -> Any:
    for place, factor in enumerate((2, 3), start=0):
        rows = rows * self.gains[place] * factor
    return rows


def places_of_two_loops(self: Any, rows: Any) -> Any:
    for place in range(2):
        rows[0] = rows[0] * self.gains[place]
    for place, row in enumerate(rows):
        row = row * self.gains[place]


class Module(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.gains = [1.0, 2.0]


def found(function: Callable[..., Any]) -> str | None:
    file = inspect.getsourcefile(function)
    assert file is not None
    _, start = inspect.getsourcelines(function)
    return _unseen.found([(file, start + 1)], Module())


COUNTERS: list[Any] = [
    compared, compared_attribute, in_a_while_with_another, as_a_condition, by_remainder, limited,
]  # fmt: skip
TABLES: list[Any] = [own_table, global_table, table_of_a_module, literal_table, places_of_two_loops]


@pytest.mark.parametrize("function", COUNTERS, ids=lambda each: each.__name__)
def test_counters(function: Any) -> None:
    assert str(found(function)).startswith("a counter of its own (test_unseen.py:")


@pytest.mark.parametrize("function", TABLES, ids=lambda each: each.__name__)
def test_tables(function: Any) -> None:
    assert str(found(function)).startswith("a table of numbers (test_unseen.py:")


@pytest.mark.parametrize(
    "function", [only_counted, constant_places, lists_of_tensors, places_of_constants]
)
def test_what_recordings_see(function: Any) -> None:
    assert found(function) is None
