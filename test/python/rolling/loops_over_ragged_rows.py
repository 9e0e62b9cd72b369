"""Loops over rows whose lengths depend on data: programs of padded batches and of packed ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

Function = Callable[..., Any]


class RaggedLoop(torch.nn.Module):
    """Runs a function with a layer: rows of a padded batch, or pieces of a packed one."""

    def __init__(self, function: Function) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.function = function
        self.linear = torch.nn.Linear(4, 4)

    def forward(self, x: Tensor, lengths: Tensor) -> Any:
        return self.function(self, x, lengths)


# x is [n, 9, 4], and lengths [n].


def layers(m: RaggedLoop, x: Tensor, lengths: Tensor) -> Any:
    return torch.cat([m.linear(x[i, :k]) for i, k in enumerate(lengths.tolist())])


def two_results(m: RaggedLoop, x: Tensor, lengths: Tensor) -> Any:
    first, second = [], []
    for i, k in enumerate(lengths.tolist()):
        first.append(x[i, :k])
        second.append(x[i, k:])
    return torch.cat(first), torch.cat(second)


def numbers_of_rows(m: RaggedLoop, x: Tensor, lengths: Tensor) -> Any:
    rows = [torch.full((k,), i) for i, k in enumerate(lengths.tolist())]
    return torch.cat(rows), x.sum()


def offsets(m: RaggedLoop, x: Tensor, lengths: Tensor) -> Any:
    places, offset = [], 0
    for k in lengths.tolist():
        places.append(torch.arange(k) + offset)
        offset += k
    return torch.cat(places), x.sum()


def list_of_offsets(m: RaggedLoop, x: Tensor, lengths: Tensor) -> Any:
    rows, ends = [], [0]
    for i, k in enumerate(lengths.tolist()):
        rows.append(x[i, :k])
        ends.append(ends[-1] + k)
    return torch.cat(rows), torch.tensor(ends)


def with_others(m: RaggedLoop, x: Tensor, lengths: Tensor) -> Any:
    rows = [x[i, :k] + 1 for i, k in enumerate(lengths.tolist())]
    return torch.cat([x[0, :2], *rows, x[0, :1]])


def rows_of_one_image(m: RaggedLoop, x: Tensor, lengths: Tensor) -> Any:
    """The list of two rows is the same at all lengths."""
    h = m.linear(torch.cat([x[0, :1], x[0, 1:2]])).sum(0)
    rows = [x[i, :k] + h for i, k in enumerate(lengths.tolist())]
    return torch.cat(rows), torch.stack([x[0, 0], x[0, 1]])


def second_axis(m: RaggedLoop, x: Tensor, lengths: Tensor) -> Any:
    return torch.cat([x[i, :k].t() for i, k in enumerate(lengths.tolist())], dim=1)


def means(m: RaggedLoop, x: Tensor, lengths: Tensor) -> Any:
    return torch.stack([x[i, :k].mean(0) for i, k in enumerate(lengths.tolist())])


def two_uses(m: RaggedLoop, x: Tensor, lengths: Tensor) -> Any:
    rows = [x[i, :k] for i, k in enumerate(lengths.tolist())]
    return torch.cat(rows), torch.stack([row.sum(0) for row in rows]), rows[-1]


def two_loops(m: RaggedLoop, x: Tensor, lengths: Tensor) -> Any:
    rows = [x[i, :k] for i, k in enumerate(lengths.tolist())]
    rows = [m.linear(row) for row in rows]
    return torch.cat(rows)


def state(m: RaggedLoop, x: Tensor, lengths: Tensor) -> Any:
    h, rows = torch.zeros(4), []
    for i, k in enumerate(lengths.tolist()):
        h = torch.tanh(m.linear(h) + x[i, :k].sum(0))
        rows.append(x[i, :k] * h)
    return torch.cat(rows), h


def padded(m: RaggedLoop, x: Tensor, lengths: Tensor) -> Any:
    rows = [x[i, :k] for i, k in enumerate(lengths.tolist())]
    pad = torch.nn.utils.rnn.pad_sequence
    return pad(rows, batch_first=True), pad(rows, padding_value=-1.5)


def items(m: RaggedLoop, x: Tensor, lengths: Tensor) -> Any:
    return torch.cat([x[i, : lengths[i].item()] for i in range(x.shape[0])])


def integers(m: RaggedLoop, x: Tensor, lengths: Tensor) -> Any:
    return torch.cat([row[: int(k)] for row, k in zip(x, lengths, strict=True)])


def masks(m: RaggedLoop, x: Tensor, lengths: Tensor) -> Any:
    return torch.cat([row[row[:, 0] > 0] for row in x]), lengths


def places(m: RaggedLoop, x: Tensor, lengths: Tensor) -> Any:
    return torch.cat([torch.nonzero(row > 0) + i for i, row in enumerate(x)]), lengths


def unique_values(m: RaggedLoop, x: Tensor, lengths: Tensor) -> Any:
    return torch.cat([torch.unique(row.round()) for row in x]), lengths


def grids(m: RaggedLoop, x: Tensor, lengths: Tensor) -> Any:
    """Positions in images of other sizes, as vision towers compute them."""
    side = torch.tensor([2]).expand(len(lengths))
    found = []
    for k, s in zip(lengths.tolist(), side.tolist(), strict=True):
        rows, columns = torch.meshgrid(torch.arange(2 * k), torch.arange(4), indexing="ij")
        shape = (2 * k // s, s, 4 // s, s)
        each = [place.reshape(shape).transpose(1, 2).flatten() for place in (rows, columns)]
        found.append(torch.stack(each, dim=-1).repeat(s, 1))
    return torch.cat(found), x.sum()


ROWS: list[Function] = [
    layers,
    two_results,
    numbers_of_rows,
    offsets,
    list_of_offsets,
    with_others,
    rows_of_one_image,
    second_axis,
    means,
    two_uses,
    two_loops,
    state,
    padded,
    items,
    integers,
    masks,
    places,
    unique_values,
    grids,
]


# x is [36, 4], and lengths [n] with this sum.


def packed_layers(m: RaggedLoop, x: Tensor, lengths: Tensor) -> Any:
    return torch.cat([m.linear(piece).softmax(0) for piece in x.split(lengths.tolist())])


def packed_attention(m: RaggedLoop, x: Tensor, lengths: Tensor) -> Any:
    q, k, v = (each.split(lengths.tolist()) for each in (m.linear(x), x, x * 2))
    return torch.cat([torch.softmax(a @ b.t(), -1) @ c for a, b, c in zip(q, k, v, strict=True)])


def packed_columns(m: RaggedLoop, x: Tensor, lengths: Tensor) -> Any:
    pieces = x.t().split(lengths.tolist(), 1)
    return torch.cat([piece - piece.mean(1, keepdim=True) for piece in pieces], 1)


def packed_means(m: RaggedLoop, x: Tensor, lengths: Tensor) -> Any:
    return torch.stack([piece.mean(0) for piece in x.split(lengths.tolist())])


PACKED: list[Function] = [packed_layers, packed_attention, packed_columns, packed_means]


# Others, which are not rolled.


def from_the_last(m: RaggedLoop, x: Tensor, lengths: Tensor) -> Any:
    rows: list[Tensor] = []
    for i, k in enumerate(lengths.tolist()):
        rows.insert(0, x[i, :k])
    return torch.cat(rows)


def other_axis(m: RaggedLoop, x: Tensor, lengths: Tensor) -> Any:
    return torch.cat([x[i, :k] for i, k in enumerate(lengths.tolist())], 1)


def two_axes(m: RaggedLoop, x: Tensor, lengths: Tensor) -> Any:
    return torch.cat([(x[i, :k] @ x[i, :k].t()) for i, k in enumerate(lengths.tolist())], 1)


def by_the_list(m: RaggedLoop, x: Tensor, lengths: Tensor) -> Any:
    rows: list[Tensor] = []
    for i, k in enumerate(lengths.tolist()):
        rows.append(x[i, :k] * 2 if len(rows) > 4 else x[i, :k])
    return torch.cat(rows)


SPECIAL: list[Function] = [from_the_last, other_axis, two_axes, by_the_list]
