"""Programs with loops over a dynamic size, n, along axis 1 of x[batch, n, 4]."""

from __future__ import annotations

import collections
import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

Function = Callable[[Any, Tensor], Any]


class Loop(nn.Module):
    """A module that runs a function, with some modules and weights for it."""

    def __init__(self, function: Function) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.function = function
        self.linear, self.other = nn.Linear(4, 4), nn.Linear(4, 4)
        self.lstm, self.gru = nn.LSTMCell(4, 4), nn.GRUCell(4, 4)
        self.table = nn.Embedding(100, 4)
        self.scores = nn.Parameter(torch.randn(4, 4))

    def forward(self, x: Tensor) -> Any:
        return self.function(self, x)


def state(x: Tensor) -> Tensor:
    return torch.zeros(x.shape[0], 4)


# Cells.


def lstm(m: Loop, x: Tensor) -> Any:
    h = c = state(x)
    out = []
    for t in range(x.size(1)):
        h, c = m.lstm(x[:, t], (h, c))
        out.append(h)
    return torch.stack(out, 1), h, c


def gru(m: Loop, x: Tensor) -> Any:
    h = state(x)
    for v in x.unbind(1):
        h = m.gru(v, h)
    return h


def bidirectional(m: Loop, x: Tensor) -> Any:
    h, forth = state(x), []
    for t in range(x.size(1)):
        h = torch.tanh(m.linear(x[:, t]) + h)
        forth.append(h)
    h = state(x)
    back: list[Tensor] = []
    for t in range(x.size(1) - 1, -1, -1):
        h = torch.tanh(m.other(x[:, t]) + h)
        back.insert(0, h)
    return torch.cat([torch.stack(forth, 1), torch.stack(back, 1)], -1)


def stacked(m: Loop, x: Tensor) -> Any:
    for layer in (m.linear, m.other):
        h, out = state(x), []
        for t in range(x.size(1)):
            h = torch.tanh(layer(x[:, t]) + h)
            out.append(h)
        x = torch.stack(out, 1)
    return x


def layers_in_a_step(m: Loop, x: Tensor) -> Any:
    states, out = [state(x), state(x)], []
    for t in range(x.size(1)):
        value = x[:, t]
        for i, layer in enumerate((m.linear, m.other)):
            value = states[i] = torch.tanh(layer(value) + states[i])
        out.append(value)
    return torch.stack(out, 1), torch.stack(states)


# How loops count.


def lists(m: Loop, x: Tensor) -> Any:
    rows, h, out = list(x.unbind(1)), state(x), []
    for row in rows:
        h = torch.tanh(m.linear(row) + h)
        out.append(h)
    h, last = state(x), []
    for value in out:
        h = torch.tanh(m.other(value) + h)
        last.append(h)
    return torch.stack(last, 1)


def from_one(m: Loop, x: Tensor) -> Any:
    h = x[:, 0]
    out = [h]
    for t in range(1, x.size(1)):
        h = torch.tanh(m.linear(h) + x[:, t])
        out.append(h)
    return torch.stack(out, 1)


def to_the_last(m: Loop, x: Tensor) -> Any:
    h = state(x)
    for t in range(x.size(1) - 1):
        h = h * 0.5 + x[:, t] * x[:, t + 1]
    return h


def while_less(m: Loop, x: Tensor) -> Any:
    i, h = 0, state(x)
    while i < x.size(1):
        h = h * 0.9 + x[:, i]
        i += 1
    return h


def comprehension(m: Loop, x: Tensor) -> Any:
    return torch.stack([m.linear(x[:, t]).relu() for t in range(x.size(1))], 1)


def reversed_range(m: Loop, x: Tensor) -> Any:
    h, out = state(x), []
    for t in reversed(range(x.size(1))):
        h = torch.tanh(m.linear(x[:, t]) + h)
        out.append(h)
    return torch.stack(out[::-1], 1)


def from_the_end(m: Loop, x: Tensor) -> Any:
    h = state(x)
    for t in range(x.size(1)):
        h = torch.tanh(h + x[:, -1 - t])
    return h


def pieces(m: Loop, x: Tensor) -> Any:
    h = state(x)
    for piece in x.split(1, 1):
        h = torch.tanh(h + piece.squeeze(1))
    return h


def slices(m: Loop, x: Tensor) -> Any:
    h, out = torch.zeros(x.shape[0], 1, 4), []
    for t in range(x.size(1)):
        h = torch.tanh(m.linear(x[:, t : t + 1]) + h)
        out.append(h)
    return torch.cat(out, 1)


def steps_without_rows(m: Loop, x: Tensor) -> Any:
    h = x.sum(1)
    for _ in range(x.size(1)):
        h = torch.tanh(m.linear(h))
    return h


# What a step depends on.


def position(m: Loop, x: Tensor) -> Any:
    h = state(x)
    for t in range(x.size(1)):
        h = h * 0.5 + x[:, t] * t
    return h


def table(m: Loop, x: Tensor) -> Any:
    return torch.stack([x[:, t] + m.table.weight[t] for t in range(x.size(1))], 1)


def mask(m: Loop, x: Tensor) -> Any:
    n, h = x.size(1), state(x)
    weights = torch.arange(n)
    for t in range(n):
        h = torch.tanh(h * (weights[t].float() / n) + x[:, t])
    return h / n


def last_row(m: Loop, x: Tensor) -> Any:
    h, last = state(x), x[:, -1]
    for t in range(x.size(1)):
        h = torch.tanh(h + x[:, t] + last)
    return h + last


def two_states(m: Loop, x: Tensor) -> Any:
    a, b = state(x), state(x) + 1
    for t in range(x.size(1)):
        a, b = b, a * 0.5 + b * 0.3 + x[:, t]
    return a, b


def two_back(m: Loop, x: Tensor) -> Any:
    states = [state(x), state(x) + 1]
    for t in range(x.size(1)):
        states.append(states[-1] * 0.5 + states[-2] * 0.2 + x[:, t])
    return torch.stack(states, 1)


def dictionary(m: Loop, x: Tensor) -> Any:
    kept = {"h": state(x), "n": state(x)}
    for t in range(x.size(1)):
        kept["h"], kept["n"] = torch.tanh(kept["h"] + x[:, t]), kept["n"] + 1
    return kept["h"], kept["n"]


def integers(m: Loop, x: Tensor) -> Any:
    h = torch.zeros(x.shape[0], dtype=torch.int64)
    for t in range(x.size(1)):
        h = h * t + (x[:, t] > 0).sum(-1)
    return h


def doubles(m: Loop, x: Tensor) -> Any:
    h = torch.zeros(x.shape[0], 4, dtype=torch.float64)
    for t in range(x.size(1)):
        h = h + x[:, t]
    return h


def number_first(m: Loop, x: Tensor) -> Any:
    h: Any = 0
    for t in range(x.size(1)):
        h = h * 0.5 + x[:, t]
    return h


def literal(m: Loop, x: Tensor) -> Any:
    h = state(x)
    for t in range(x.size(1)):
        h = h + torch.tensor([1.0, 2.0, 3.0, 4.0]) * x[:, t]
    return h


def viterbi(m: Loop, x: Tensor) -> Any:
    value, pointers = x[:, 0], []
    for t in range(1, x.size(1)):
        value, best = (value.unsqueeze(2) + m.scores).max(1)
        value = value + x[:, t]
        pointers.append(best)
    tag = value.argmax(1)
    path = [tag]
    for best in reversed(pointers):
        tag = best.gather(1, tag[:, None]).squeeze(1)
        path.insert(0, tag)
    return torch.stack(path, 1)


# Steps that are not like the others.


def first_is_none(m: Loop, x: Tensor) -> Any:
    h = None
    for t in range(x.size(1)):
        h = x[:, t] if h is None else torch.tanh(h + x[:, t])
    return h


def last_doubles(m: Loop, x: Tensor) -> Any:
    n, h = x.size(1), state(x)
    for t in range(n):
        h = torch.tanh(h + x[:, t])
        if t == n - 1:
            h = h * 2
    return h


# What becomes of the results.


def rotated(m: Loop, x: Tensor) -> Any:
    out = [m.linear(x[:, t]) for t in range(x.size(1))]
    return torch.stack(out[1:] + out[:1], 1)


def summed(m: Loop, x: Tensor) -> Any:
    return sum(m.linear(x[:, t]) for t in range(x.size(1)))


def pairs(m: Loop, x: Tensor) -> Any:
    found = []
    for t in range(x.size(1)):
        found.append([x[:, t] + 1, x[:, t] * 2])
    return torch.stack([a for a, _ in found], 1), torch.stack([b for _, b in found], 1)


# Writes.


def written_rows(m: Loop, x: Tensor) -> Any:
    out, h = torch.zeros_like(x), state(x)
    for t in range(x.size(1)):
        h = torch.tanh(m.linear(x[:, t]) + h)
        out[:, t] = h
    return out * 2


def cumulative(m: Loop, x: Tensor) -> Any:
    x = x.clone()
    for t in range(1, x.size(1)):
        x[:, t] += x[:, t - 1]
    return x


def state_in_place(m: Loop, x: Tensor) -> Any:
    h = state(x)
    for t in range(x.size(1)):
        h.mul_(0.5).add_(x[:, t])
    return h


def kept_copies(m: Loop, x: Tensor) -> Any:
    h, out = state(x), []
    for t in range(x.size(1)):
        h.add_(x[:, t])
        out.append(h.clone())
    return torch.stack(out, 1)


def views_of_what_changes(m: Loop, x: Tensor) -> Any:
    x = x.clone()
    views = [x[:, t] for t in range(x.size(1))]
    x.mul_(2)
    return torch.stack([view + 1 for view in views], 1)


def growing_mask(m: Loop, x: Tensor) -> Any:
    ones, out = torch.zeros(x.size(1)), []
    for t in range(x.size(1)):
        ones[t] = 1
        out.append((x * ones[None, :, None]).sum(1))
    return torch.stack(out, 1)


# Slices and numbers that follow from the step.


def prefixes(m: Loop, x: Tensor) -> Any:
    return torch.stack([x[:, : t + 1].mean(1) for t in range(x.size(1))], 1)


def suffixes(m: Loop, x: Tensor) -> Any:
    return torch.stack([x[:, t:].sum(1) for t in range(x.size(1))], 1)


def causal_attention(m: Loop, x: Tensor) -> Any:
    out = []
    for t in range(x.size(1)):
        query, past = x[:, t : t + 1], x[:, : t + 1]
        weights = torch.softmax(query @ past.transpose(1, 2), -1)
        out.append((weights @ past).squeeze(1))
    return torch.stack(out, 1)


def written_suffixes(m: Loop, x: Tensor) -> Any:
    out = torch.zeros_like(x)
    for t in range(x.size(1)):
        out[:, t:] += x[:, t : t + 1]
    return out


def cholesky(m: Loop, x: Tensor) -> Any:
    a = x @ x.transpose(1, 2) + 3 * torch.eye(x.size(1))
    lower = torch.zeros_like(a)
    for j in range(a.size(1)):
        column = a[:, j:, j] - (lower[:, j:, :j] @ lower[:, j, :j, None]).squeeze(-1)
        lower[:, j:, j] = column / column[:, :1].sqrt()
    return lower


def inverse(m: Loop, x: Tensor) -> Any:
    a = -(x @ x.transpose(1, 2)).tril(-1) * 0.1
    for i in range(1, a.size(1)):
        row, before = a[:, i, :i].clone(), a[:, :i, :i].clone()
        a[:, i, :i] = row + (row.unsqueeze(-1) * before).sum(-2)
    return a + torch.eye(a.size(1))


def times(m: Loop, x: Tensor) -> Any:
    n, value = x.size(1), x[:, 0]
    for i in reversed(range(n)):
        now, after = (i + 1) / n, i / n
        value = value * (1 - now) + m.linear(value) * (after - now)
    return value


def small_steps(m: Loop, x: Tensor) -> Any:
    length, value = 1.0 / x.size(1), x[:, 0].double()
    for i in range(x.size(1)):
        value = value + length * torch.sin(value + i * length)
    return value


def filled(m: Loop, x: Tensor) -> Any:
    n, value = x.size(1), x[:, 0]
    for i in range(n):
        value = value + m.linear(value) * torch.full((x.shape[0], 1), i / n)
    return value


def draws(m: Loop, x: Tensor) -> Any:
    h = state(x)
    for t in range(x.size(1)):
        h = h + x[:, t] + torch.rand(4) * 0
    return h


def not_a_number(m: Loop, x: Tensor) -> Any:
    h = state(x)
    for t in range(x.size(1)):
        h = torch.where(x[:, t] > 9, torch.nan, h + x[:, t])
    return torch.where(h > 99, torch.nan, h)


ROLLED: list[Function] = [
    lstm, gru, bidirectional, stacked, layers_in_a_step, lists, from_one, to_the_last, while_less,
    comprehension, reversed_range, from_the_end, pieces, slices, steps_without_rows, position,
    table, mask, last_row, two_states, two_back, dictionary, integers, doubles, number_first,
    literal, first_is_none, last_doubles, viterbi, rotated, summed, pairs, written_rows, cumulative,
    state_in_place, kept_copies, views_of_what_changes, growing_mask, prefixes, suffixes,
    causal_attention, written_suffixes, cholesky, inverse, times, small_steps, filled, draws,
    not_a_number,
]  # fmt: skip


# Programs that do something else at some length, and those at which they do.


def half_after(count: int, m: Loop, x: Tensor, t: Any, h: Tensor) -> Tensor:
    return h + x[:, t] if t < count else h * 0.5


def enumerated(m: Loop, x: Tensor) -> Any:
    h = state(x)
    for t, _ in enumerate(x.unbind(1)):
        h = half_after(30, m, x, t, h)
    return h


def breaks(m: Loop, x: Tensor) -> Any:
    h = state(x)
    for t in range(x.size(1)):
        if t >= 30:
            break
        h = h + x[:, t]
    return h


def branches_on_the_size(m: Loop, x: Tensor) -> Any:
    h = state(x)
    for t in range(x.size(1)):
        h = h * 0.9 + x[:, t]
    return h * 2 if x.size(1) > 30 else h


def branches_on_len(m: Loop, x: Tensor) -> Any:
    out = [torch.tanh(row) for row in x.unbind(1)]
    return torch.stack(out, 1) * (2 if len(out) > 30 else 1)


def branches_on_a_result(m: Loop, x: Tensor) -> Any:
    y = torch.stack([torch.tanh(row) for row in x.unbind(1)], 1)
    return y * 2 if y.shape[1] > 30 else y


def counts_itself(m: Loop, x: Tensor) -> Any:
    h, i = state(x), 0
    for row in x.unbind(1):
        i = i + 1
        h = h + row if i <= 30 else h * 0.5
    return h


def while_both(m: Loop, x: Tensor) -> Any:
    h, i = state(x), 0
    while i < x.size(1) and i < 30:
        h = h * 0.9 + x[:, i]
        i += 1
    return h


def last_ten(m: Loop, x: Tensor) -> Any:
    return torch.stack([torch.tanh(row) for row in x.unbind(1)][-10:], 1)


def first_ten(m: Loop, x: Tensor) -> Any:
    return torch.stack([torch.tanh(row) for row in x.unbind(1)][:10], 1)


def window(m: Loop, x: Tensor) -> Any:
    kept: collections.deque[Tensor] = collections.deque(maxlen=10)
    h = state(x)
    for row in x.unbind(1):
        h = torch.tanh(h + row)
        kept.append(h)
    return kept[0] + h


def pops(m: Loop, x: Tensor) -> Any:
    kept: list[Tensor] = []
    h = state(x)
    for t in range(x.size(1)):
        if len(kept) > 30:
            kept.pop(0)
        kept.append(x[:, t])
        h = h + kept[0]
    return h


def quotient(m: Loop, x: Tensor) -> Any:
    h = state(x)
    for t in range(x.size(1)):
        h = h + x[:, t] * (t // 30)
    return h


def remainder(m: Loop, x: Tensor) -> Any:
    h = state(x)
    for t in range(x.size(1)):
        h = h + x[:, t] * (t % 30)
    return h


def least(m: Loop, x: Tensor) -> Any:
    h = state(x)
    for t in range(x.size(1)):
        h = h + x[:, t] * min(t, 30)
    return h


def root(m: Loop, x: Tensor) -> Any:
    h = state(x)
    for t in range(x.size(1)):
        h = h + x[:, t] / math.sqrt(t + 1)
    return h


def decimal(m: Loop, x: Tensor) -> Any:
    h = state(x)
    for t in range(x.size(1)):
        h = h * 0.5 if t / 10 > 3 else h + x[:, t]
    return h


def cut(m: Loop, x: Tensor) -> Any:
    h, first = state(x), x[:, :30]
    for t in range(x.size(1)):
        h = h * 0.9 + x[:, t]
    return h * 2 if first.shape[1] == x.shape[1] else h


def cut_slices(m: Loop, x: Tensor) -> Any:
    return torch.stack([x[:, t : t + 3].sum(1) for t in range(x.size(1))], 1)


def longer_slices(m: Loop, x: Tensor) -> Any:
    return torch.stack([x[:, : t + 3].sum(1) for t in range(x.size(1))], 1)


def fraction(m: Loop, x: Tensor) -> Any:
    n, h = x.size(1), state(x)
    for t in range(n):
        h = h * 0.5 if t / n > 0.9 else h + x[:, t]
    return h


def gains(m: Loop, x: Tensor) -> Any:
    numbers, h = [1.0] * 30 + [2.0] * 200, state(x)
    for t in range(x.size(1)):
        h = h + x[:, t] * numbers[t]
    return h


def keys(m: Loop, x: Tensor) -> Any:
    found = {}
    for t in range(x.size(1)):
        found[t] = torch.tanh(x[:, t])
    return found[0] + found.get(30, found[0])


def by_element(m: Loop, x: Tensor) -> Any:
    h = state(x)
    for t in range(x.size(1)):
        h = h + x[:, t]
        if h.sum() > 1e9:
            break
    return h


def one_tensor(m: Loop, x: Tensor) -> Any:
    h, out = state(x), []
    for t in range(x.size(1)):
        h.add_(x[:, t])
        out.append(h)
    return torch.stack(out, 1)


def even_steps(m: Loop, x: Tensor) -> Any:
    h = state(x)
    for t in range(x.size(1)):
        h = h + x[:, t] if t % 2 == 0 else h * 0.5 - x[:, t]
    return h


def nested(m: Loop, x: Tensor) -> Any:
    h = state(x)
    for t in range(x.size(1)):
        for u in range(x.size(1)):
            h = torch.tanh(h + x[:, t] * x[:, u])
    return h


def uneven(m: Loop, x: Tensor) -> Any:
    out = [x[:, i : i + 3].sum(1) for i in range(0, x.size(1), 3)]
    return torch.stack(out, 1).sum(1)


def growing_list(m: Loop, x: Tensor) -> Any:
    kept: list[Tensor] = []
    out = []
    for t in range(x.size(1)):
        kept.append(x[:, t])
        out.append(torch.stack(kept).sum(0))
    return torch.stack(out, 1)


def shape_changes(m: Loop, x: Tensor) -> Any:
    h = torch.zeros(1, 4)
    for t in range(x.size(1)):
        h = torch.tanh(h + x[:, t])
    return h


def first_three(m: Loop, x: Tensor) -> Any:
    out = [torch.tanh(row) for row in x.unbind(1)]
    return out[0] + out[1] + out[2]


SPECIAL: list[Function] = [
    enumerated, breaks, branches_on_the_size, branches_on_len, branches_on_a_result, counts_itself,
    while_both, last_ten, first_ten, window, pops, quotient, remainder, least, root, decimal, gains,
    keys, by_element, one_tensor, even_steps, fraction, cut, cut_slices, longer_slices, nested,
    uneven, growing_list, shape_changes, first_three,
]  # fmt: skip
