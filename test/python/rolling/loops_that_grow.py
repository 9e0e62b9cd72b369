"""Loops that add rows to a tensor in each step: caches of keys and values, texts that grow."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn


class Growing(nn.Module):
    """Runs one of the functions below with layers of a small decoder."""

    def __init__(self, function: Any) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.function = function
        self.linear, self.embedding = nn.Linear(4, 4), nn.Embedding(11, 4)
        self.head = nn.Linear(4, 11)
        self.decoder = nn.TransformerDecoderLayer(4, 2, 8, batch_first=True, dropout=0)

    def forward(self, x: Tensor) -> Any:
        return self.function(self, x)


def last_row(m: Growing, x: Tensor) -> Any:
    out = x[:, :1]
    for t in range(x.size(1)):
        out = torch.cat([out, torch.tanh(m.linear(out[:, -1:] + x[:, t : t + 1]))], 1)
    return out


def keys_and_values(m: Growing, x: Tensor) -> Any:
    keys = values = torch.zeros(x.shape[0], 0, 4)
    out = []
    for t in range(x.size(1)):
        query = m.linear(x[:, t : t + 1])
        keys, values = torch.cat([keys, query], 1), torch.cat([values, x[:, t : t + 1]], 1)
        out.append(torch.softmax(query @ keys.transpose(1, 2), -1) @ values)
    return torch.cat(out, 1), keys


def greedy(m: Growing, x: Tensor) -> Any:
    text = torch.ones(x.shape[0], 1, dtype=torch.long)
    for _ in range(x.size(1)):
        h = m.embedding(text).cumsum(1) + x.mean(1, keepdim=True)
        text = torch.cat([text, m.head(h[:, -1]).argmax(-1, keepdim=True)], 1)
    return text


def transformer(m: Growing, x: Tensor) -> Any:
    text = torch.ones(x.shape[0], 1, dtype=torch.long)
    for _ in range(x.size(1)):
        n = text.shape[1]
        mask = torch.triu(torch.full((n, n), float("-inf")), 1)
        h = m.decoder(m.embedding(text), x, tgt_mask=mask)
        text = torch.cat([text, m.head(h[:, -1]).argmax(-1, keepdim=True)], 1)
    return text


def mean_of_past(m: Growing, x: Tensor) -> Any:
    past = x[:, :1]
    for t in range(1, x.size(1)):
        past = torch.cat([past, m.linear(past.mean(1, keepdim=True) + x[:, t : t + 1])], 1)
    return past.sum(1)


def shape_of_past(m: Growing, x: Tensor) -> Any:
    past, out = x[:, :1], [x.sum(1).reshape(-1, 2, 2)]
    for t in range(1, x.size(1)):
        past = torch.cat([past, m.linear(x[:, t : t + 1])], 1)
        out.append(past.reshape(x.shape[0], t + 1, 2, 2).sum(1))
    return torch.stack(out, 1), past


def first_axis(m: Growing, x: Tensor) -> Any:
    past = torch.zeros(0, x.shape[0], 4)
    for row in x.unbind(1):
        past = torch.cat((past, m.linear(row)[None]))
    return past * 2


def at_the_front(m: Growing, x: Tensor) -> Any:
    past = x[:, :1]
    for t in range(1, x.size(1)):
        past = torch.cat([x[:, t : t + 1] + past.sum(1, keepdim=True), past], 1)
    return past


def two_rows(m: Growing, x: Tensor) -> Any:
    past = x[:, :1]
    for t in range(x.size(1)):
        past = torch.cat([past, x[:, t : t + 1], m.linear(past[:, -1:])], 1)
    return past


def window(m: Growing, x: Tensor) -> Any:
    past = x[:, :1]
    for t in range(x.size(1)):
        past = torch.cat([past, m.linear(past[:, -2:].sum(1, keepdim=True) + x[:, t : t + 1])], 1)
    return past


def after_the_input(m: Growing, x: Tensor) -> Any:
    past = x
    for t in range(x.size(1)):
        past = torch.cat([past, m.linear(past[:, -1:] + x[:, t : t + 1])], 1)
    return past


def two_that_grow(m: Growing, x: Tensor) -> Any:
    one, two = x[:, :1], torch.zeros(x.shape[0], 0, 4)
    for t in range(x.size(1)):
        one = torch.cat([one, x[:, t : t + 1]], 1)
        two = torch.cat([two, one[:, -1:], one[:, :1]], 1)
    return one, two


ROLLED = [
    last_row,
    keys_and_values,
    greedy,
    transformer,
    mean_of_past,
    shape_of_past,
    first_axis,
    at_the_front,
    two_rows,
    window,
    after_the_input,
    two_that_grow,
]


# Others, which are not rolled.


def doubles(m: Growing, x: Tensor) -> Any:
    past = x[:, :1]
    for _ in range(x.size(1)):
        past = torch.cat([past, past + 1], 1)
    return past


def lists_that_grow(m: Growing, x: Tensor) -> Any:
    rows = [x[:, 0]]
    for t in range(1, x.size(1)):
        rows.append(m.linear(torch.stack(rows, 1).sum(1) + x[:, t]))
    return torch.stack(rows, 1)


def until_it_is_long(m: Growing, x: Tensor) -> Any:
    past = x[:, :1]
    for t in range(x.size(1)):
        if past.shape[1] < 6:
            past = torch.cat([past, x[:, t : t + 1]], 1)
    return past


SPECIAL = [doubles, lists_that_grow, until_it_is_long]
