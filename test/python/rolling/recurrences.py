"""Recurrent cells that programs write themselves, in loops."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn


class Recurrence(nn.Module):
    """Runs a function with the module, a sequence [2, n, 6] and states [2, 8]."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.function = function
        self.lstm, self.gru, self.rnn = nn.LSTMCell(6, 8), nn.GRUCell(6, 8), nn.RNNCell(6, 8)
        self.relu = nn.RNNCell(6, 8, nonlinearity="relu", bias=False)
        self.upper, self.head = nn.LSTMCell(8, 8), nn.Linear(8, 3)
        self.x4, self.h4 = nn.Linear(6, 32), nn.Linear(8, 32, bias=False)
        self.x3, self.h3 = nn.Linear(6, 24), nn.Linear(8, 24)
        self.gates = nn.ModuleList(nn.Linear(14, 8) for _ in range(4))
        self.norm = nn.LayerNorm(8)

    def forward(self, x: Tensor, h: Tensor, c: Tensor) -> Any:
        return self.function(self, x, h, c)


def lstm_cell(m: Any, x: Tensor, h: Tensor, c: Tensor) -> Any:
    out = []
    for t in range(x.size(1)):
        h, c = m.lstm(x[:, t], (h, c))
        out.append(h)
    return torch.stack(out, 1), h, c


def gru_cell(m: Any, x: Tensor, h: Tensor, c: Tensor) -> Any:
    out = []
    for t in range(x.size(1)):
        h = m.gru(x[:, t], h)
        out.append(h)
    return torch.stack(out, 1), h


def rnn_cell(m: Any, x: Tensor, h: Tensor, c: Tensor) -> Any:
    for t in range(x.size(1)):
        h = m.rnn(x[:, t], h)
    return h


def rnn_cell_with_relu(m: Any, x: Tensor, h: Tensor, c: Tensor) -> Any:
    out = []
    for t in range(x.size(1)):
        h = m.relu(x[:, t], h)
        out.append(h)
    return torch.stack(out, 1)


def one_product_of_gates(m: Any, x: Tensor, h: Tensor, c: Tensor) -> Any:
    out = []
    for x_t in x.unbind(1):
        f, i, o, g = (m.h4(h) + m.x4(x_t)).chunk(4, 1)
        c = torch.sigmoid(i) * torch.tanh(g) + c * torch.sigmoid(f)
        h = torch.tanh(c) * torch.sigmoid(o)
        out.append(h)
    return torch.stack(out, 1), c


def projected_before(m: Any, x: Tensor, h: Tensor, c: Tensor) -> Any:
    """The program itself multiplies all inputs at once."""
    projected = m.x4(x)
    for t in range(x.size(1)):
        gates = projected[:, t] + m.h4(h)
        i, f, g, o = gates[:, :8], gates[:, 8:16], gates[:, 16:24], gates[:, 24:]
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
        h = torch.sigmoid(o) * torch.tanh(c)
    return h


def a_layer_for_each_gate(m: Any, x: Tensor, h: Tensor, c: Tensor) -> Any:
    for t in range(x.size(1)):
        both = torch.cat([x[:, t], h], 1)
        i, f, o, g = (layer(both) for layer in m.gates)
        c = f.sigmoid() * c + i.sigmoid() * g.tanh()
        h = o.sigmoid() * c.tanh()
    return h


def two_layers(m: Any, x: Tensor, h: Tensor, c: Tensor) -> Any:
    h2, c2, out = h, c, []
    for t in range(x.size(1)):
        h, c = m.lstm(x[:, t], (h, c))
        h2, c2 = m.upper(h, (h2, c2))
        out.append(m.head(h2))
    return torch.stack(out, 1), h, c2


def head_in_each_step(m: Any, x: Tensor, h: Tensor, c: Tensor) -> Any:
    out = []
    for t in range(x.size(1)):
        h = m.gru(x[:, t], h)
        out.append(m.head(h).softmax(-1))
    return torch.stack(out, 1)


def both_directions(m: Any, x: Tensor, h: Tensor, c: Tensor) -> Any:
    forward, backward, h2 = [], [], h
    for t in range(x.size(1)):
        h = m.gru(x[:, t], h)
        forward.append(h)
    for t in reversed(range(x.size(1))):
        h2 = m.gru(x[:, t], h2)
        backward.append(h2)
    return torch.cat([torch.stack(forward, 1), torch.stack(backward[::-1], 1)], 2)


def gru_of_a_paper(m: Any, x: Tensor, h: Tensor, c: Tensor) -> Any:
    """The reset gate scales the state, and the update gate takes from the candidate."""
    out = []
    for t in range(x.size(1)):
        both = torch.cat([x[:, t], h], 1)
        z, r = torch.sigmoid(m.gates[0](both)), torch.sigmoid(m.gates[1](both))
        n = torch.tanh(m.gates[2](torch.cat([x[:, t], r * h], 1)))
        h = (1 - z) * h + z * n
        out.append(h)
    return torch.stack(out, 1)


def gru_by_hand(m: Any, x: Tensor, h: Tensor, c: Tensor) -> Any:
    out = []
    for t in range(x.size(1)):
        xz, xr, xn = m.x3(x[:, t]).chunk(3, 1)
        hz, hr, hn = m.h3(h).chunk(3, 1)
        n = torch.tanh(xn + torch.sigmoid(xr + hr) * hn)
        z = torch.sigmoid(xz + hz)
        h = z * h + (1 - z) * n
        out.append(h)
    return torch.stack(out, 1)


def minimal_update(m: Any, x: Tensor, h: Tensor, c: Tensor) -> Any:
    """h + z * (n - h)."""
    for t in range(x.size(1)):
        xz, xr, xn = m.x3(x[:, t]).chunk(3, 1)
        hz, hr, hn = m.h3(h).chunk(3, 1)
        n = torch.tanh(torch.sigmoid(xr + hr) * hn + xn)
        h = h + torch.sigmoid(xz + hz) * (n - h)
    return h


# These have the operator of each loop.
RECOGNIZED: dict[Callable[..., Any], list[str]] = {
    lstm_cell: ["LSTM"],
    gru_cell: ["GRU"],
    rnn_cell: ["RNN"],
    rnn_cell_with_relu: ["RNN"],
    one_product_of_gates: ["LSTM"],
    projected_before: ["LSTM"],
    a_layer_for_each_gate: ["LSTM"],
    two_layers: ["LSTM", "LSTM"],
    head_in_each_step: ["GRU"],
    both_directions: ["GRU", "GRU"],
    gru_of_a_paper: ["GRU"],
    gru_by_hand: ["GRU"],
    minimal_update: ["GRU"],
}


def stacked_cell_states(m: Any, x: Tensor, h: Tensor, c: Tensor) -> Any:
    out = []
    for t in range(x.size(1)):
        h, c = m.lstm(x[:, t], (h, c))
        out.append(c)
    return torch.stack(out, 1)


def states_before(m: Any, x: Tensor, h: Tensor, c: Tensor) -> Any:
    out = []
    for t in range(x.size(1)):
        out.append(m.head(h))
        h = m.gru(x[:, t], h)
    return torch.stack(out, 1)


def normalized(m: Any, x: Tensor, h: Tensor, c: Tensor) -> Any:
    for t in range(x.size(1)):
        h, c = m.lstm(x[:, t], (h, c))
        h = m.norm(h)
    return h


def fed_back(m: Any, x: Tensor, h: Tensor, c: Tensor) -> Any:
    y, out = x[:, 0], []
    for t in range(x.size(1)):
        h = m.gru(y + x[:, t], h)
        y = torch.cat([m.head(h), m.head(h)], 1)
        out.append(y)
    return torch.stack(out, 1)


def with_peepholes(m: Any, x: Tensor, h: Tensor, c: Tensor) -> Any:
    for t in range(x.size(1)):
        i, f, g, o = (m.x4(x[:, t]) + m.h4(h)).chunk(4, 1)
        c = torch.sigmoid(f + c) * c + torch.sigmoid(i) * torch.tanh(g)
        h = torch.sigmoid(o) * torch.tanh(c)
    return h


def coupled_gates(m: Any, x: Tensor, h: Tensor, c: Tensor) -> Any:
    for t in range(x.size(1)):
        _, f, g, o = (m.x4(x[:, t]) + m.h4(h)).chunk(4, 1)
        c = torch.sigmoid(f) * c + (1 - torch.sigmoid(f)) * torch.tanh(g)
        h = torch.sigmoid(o) * torch.tanh(c)
    return h


def other_gate_of_the_state(m: Any, x: Tensor, h: Tensor, c: Tensor) -> Any:
    """The candidate is kept by one gate and the state by another."""
    for t in range(x.size(1)):
        z, r, n = (m.x3(x[:, t]) + m.h3(h)).chunk(3, 1)
        h = torch.sigmoid(z) * h + (1 - torch.sigmoid(r)) * torch.tanh(n)
    return h


def broadcast_bias(m: Any, x: Tensor, h: Tensor, c: Tensor) -> Any:
    for t in range(x.size(1)):
        i, f, g, o = (m.x4(x[:, t]) + m.h4(h) + m.head.bias[:1]).chunk(4, 1)
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
        h = torch.sigmoid(o) * torch.tanh(c)
    return h


# These stay loops: ONNX's operators compute something else.
KEPT: tuple[Callable[..., Any], ...] = (
    stacked_cell_states,
    states_before,
    normalized,
    fed_back,
    with_peepholes,
    coupled_gates,
    other_gate_of_the_state,
    broadcast_bias,
)
