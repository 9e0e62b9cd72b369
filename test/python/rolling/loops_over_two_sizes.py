"""Programs with loops over two dynamic sizes: n of x[batch, n, 4] and m of y[batch, m, 4]."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

Function = Callable[[Any, Tensor, Tensor], Any]


class Loops(nn.Module):
    """A module that runs a function, with some modules for it."""

    def __init__(self, function: Function) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.function = function
        self.linear, self.cell = nn.Linear(4, 4), nn.GRUCell(4, 4)

    def forward(self, x: Tensor, y: Tensor) -> Any:
        return self.function(self, x, y)


def state(x: Tensor) -> Tensor:
    return torch.zeros(x.shape[0], 4)


def one_after_the_other(m: Loops, x: Tensor, y: Tensor) -> Any:
    h, out = state(x), []
    for t in range(x.size(1)):
        h = torch.tanh(m.linear(x[:, t]) + h)
    for t in range(y.size(1)):
        h = torch.tanh(m.linear(y[:, t]) - h)
        out.append(h)
    return torch.stack(out, 1)


def attention(m: Loops, x: Tensor, y: Tensor) -> Any:
    h, kept, out = state(x), [], []
    for v in x.unbind(1):
        h = m.cell(v, h)
        kept.append(h)
    encoded = torch.stack(kept, 1)
    for v in y.unbind(1):
        weights = torch.softmax((encoded @ h.unsqueeze(2)).squeeze(2), 1)
        h = m.cell(v + (weights.unsqueeze(2) * encoded).sum(1), h)
        out.append(h)
    return torch.stack(out, 1)


def time_warping(m: Loops, x: Tensor, y: Tensor) -> Any:
    distance = (x.unsqueeze(2) - y.unsqueeze(1)).pow(2).sum(-1)
    n, k = x.size(1), y.size(1)
    best = torch.full((x.size(0), n + 1, k + 1), 1e9)
    best[:, 0, 0] = 0
    for i in range(1, n + 1):
        for j in range(1, k + 1):
            before = torch.minimum(best[:, i - 1, j], best[:, i, j - 1])
            best[:, i, j] = distance[:, i - 1, j - 1] + torch.minimum(before, best[:, i - 1, j - 1])
    return best[:, n, k]


def rows_of_lists(m: Loops, x: Tensor, y: Tensor) -> Any:
    rows = []
    for i in range(x.size(1)):
        row = []
        for j in range(y.size(1)):
            row.append((x[:, i] * y[:, j]).sum(-1) + i - 2 * j)
        rows.append(torch.stack(row, 1))
    return torch.stack(rows, 1)


def state_in_both(m: Loops, x: Tensor, y: Tensor) -> Any:
    h = state(x)
    for i in range(x.size(1)):
        h = h * 0.9 + x[:, i]
        for j in range(y.size(1)):
            h = torch.tanh(h + y[:, j] * i)
        h = h - i
    return h


def outer_and_inner(m: Loops, x: Tensor, y: Tensor) -> Any:
    total = state(x)
    for i in range(y.size(1)):
        h = y[:, i]
        for j in reversed(range(x.size(1))):
            h = torch.sin(h + x[:, j])
        total = total + h
    return total


ROLLED: list[Function] = [
    one_after_the_other, attention, time_warping, rows_of_lists, state_in_both, outer_and_inner,
]  # fmt: skip


# Programs that do something else at some sizes.


def outer_decides(m: Loops, x: Tensor, y: Tensor) -> Any:
    h = state(x)
    for i in range(x.size(1)):
        for j in range(y.size(1)):
            h = h + x[:, i] * y[:, j] if i < 25 else h * 0.5
    return h


def inner_decides(m: Loops, x: Tensor, y: Tensor) -> Any:
    h = state(x)
    for i in range(x.size(1)):
        for j in range(y.size(1)):
            h = h + x[:, i] * y[:, j] if j < 25 else h * 0.5
    return h


def both_decide(m: Loops, x: Tensor, y: Tensor) -> Any:
    h = state(x)
    for i in range(x.size(1)):
        for j in range(y.size(1)):
            h = h + x[:, i] * y[:, j] if i + j < 40 else h * 0.5
    return h


def triangle(m: Loops, x: Tensor, y: Tensor) -> Any:
    h = state(x)
    for i in range(x.size(1)):
        for j in range(y.size(1)):
            if j <= i:
                h = torch.tanh(h + x[:, i] * y[:, j])
    return h


def second_is_longer(m: Loops, x: Tensor, y: Tensor) -> Any:
    h = state(x)
    for i in range(x.size(1)):
        h = torch.tanh(h + x[:, i])
    for j in range(y.size(1)):
        h = torch.tanh(h - y[:, j])
    return h * 2 if y.size(1) > x.size(1) + 25 else h


def outer_gains(m: Loops, x: Tensor, y: Tensor) -> Any:
    numbers, h = [1.0] * 22 + [2.0] * 200, state(x)
    for i in range(x.size(1)):
        for j in range(y.size(1)):
            h = h + x[:, i] * y[:, j] * numbers[i]
    return h


def fraction(m: Loops, x: Tensor, y: Tensor) -> Any:
    h = state(x)
    for i in range(x.size(1)):
        for j in range(y.size(1)):
            h = h + x[:, i] * y[:, j] if i / 10 < 2.45 else h * 0.5
    return h


SPECIAL: list[Function] = [
    outer_decides, inner_decides, both_decide, triangle, second_is_longer, outer_gains, fraction,
]  # fmt: skip
