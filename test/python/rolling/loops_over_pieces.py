"""Programs with loops over the pieces of a dynamic size, n, along axis 1 of x[batch, n, 4]."""

from __future__ import annotations

from typing import Any

import torch
from rolling.loops import Function, Loop, state
from torch import Tensor
from torch.nn import functional as F


def every_other_row(m: Loop, x: Tensor) -> Any:
    return torch.stack([m.linear(x[:, t]) for t in range(0, x.size(1), 2)], 1)


def state_of_every_third(m: Loop, x: Tensor) -> Any:
    h = state(x)
    for t in range(0, x.size(1), 3):
        h = torch.tanh(m.linear(x[:, t]) + h)
    return h


def padded_pieces(m: Loop, x: Tensor) -> Any:
    n = x.size(1)
    more = (4 - n % 4) % 4
    pieces = F.pad(x, (0, 0, 0, more)).reshape(x.size(0), -1, 4, 4)
    h, out = torch.zeros(x.size(0), 4, 4), torch.zeros_like(pieces)
    for i in range((n + more) // 4):
        out[:, i] = m.linear(pieces[:, i]) @ h
        h = torch.tanh(h + pieces[:, i])
    return out.reshape(x.size(0), -1, 4)[:, :n]


def padded_slices(m: Loop, x: Tensor) -> Any:
    n = x.size(1)
    more = (4 - n % 4) % 4
    x, h, out = F.pad(x, (0, 0, 0, more)), torch.zeros(x.size(0), 1, 4), []
    for i in range(0, n + more, 4):
        h = h * 0.5 + x[:, i : i + 4].sum(1, keepdim=True)
        out.append(x[:, i : i + 4] + h)
    return torch.cat(out, 1)[:, :n]


def positions(m: Loop, x: Tensor) -> Any:
    h = state(x)
    for i, t in enumerate(range(0, x.size(1), 2)):
        h = h * 0.5 + x[:, t] * t - i
    return h


ROLLED: list[Function] = [
    every_other_row, state_of_every_third, padded_pieces, padded_slices, positions,
]  # fmt: skip


# Programs whose last piece is another one.


def uneven_slices(m: Loop, x: Tensor) -> Any:
    return torch.cat([m.linear(x[:, i : i + 4]).cumsum(1) for i in range(0, x.size(1), 4)], 1)


def uneven_pieces(m: Loop, x: Tensor) -> Any:
    h, out = torch.zeros(x.size(0), 1, 4), []
    for piece in x.split(4, 1):
        h = (piece + h).mean(1, keepdim=True)
        out.append(piece * h)
    return torch.cat(out, 1)


def uneven_means(m: Loop, x: Tensor) -> Any:
    return torch.stack([x[:, i : i + 4].mean(1) for i in range(0, x.size(1), 4)], 1)


def long_pieces(m: Loop, x: Tensor) -> Any:
    h = state(x)
    for i in range(0, x.size(1), 4):
        h = h * 0.5 + x[:, i] if i < 80 else h * 0.1
    return h


SPECIAL: list[Function] = [uneven_slices, uneven_pieces, uneven_means, long_pieces]
