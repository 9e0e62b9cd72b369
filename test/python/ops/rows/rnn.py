"""Rows of csrc/ops/nn/rnn.cpp."""

from typing import Any

import torch

from ops.row import Case, Row, floats

aten = torch.ops.aten


def parameters(gates: int, layers: int, directions: int, biases: bool) -> list[torch.Tensor]:
    """Weights of a network from 3 features to 4."""
    tensors: list[torch.Tensor] = []
    for layer in range(layers):
        width = 3 if layer == 0 else 4 * directions
        for _ in range(directions):
            tensors += [floats(4 * gates, width, seed=len(tensors)), floats(4 * gates, 4, seed=99)]
            if biases:
                tensors += [floats(4 * gates, seed=5), floats(4 * gates, seed=6)]
    # Small, so that float16 rounding errors do not grow.
    return [tensor / 4 for tensor in tensors]


def network(operator: Any, gates: int, layers: int, directions: int, biases: bool) -> Case:
    """Takes (batch, sequence, features) with biases, else (sequence, batch, features)."""
    float_params = parameters(gates, layers, directions, biases)

    def run(x: torch.Tensor, *states: torch.Tensor, dtype: torch.dtype = torch.float32) -> Any:
        params = [param.to(dtype) for param in float_params]
        hx = list(states) if operator is aten.lstm.input else states[0]
        return operator(x, hx, params, biases, layers, 0.0, False, directions == 2, biases)

    state = floats(layers * directions, 2, 4)
    count = 2 if operator is aten.lstm.input else 1
    if not biases:
        return Case(run, floats(5, 2, 3), *[state] * count)

    # A larger batch needs more states.
    def run_from_zero(x: torch.Tensor, dtype: torch.dtype = torch.float32) -> Any:
        state = torch.zeros(layers * directions, x.shape[0], 4, dtype=dtype)
        return run(x, *[state] * count, dtype=dtype)

    return Case(run_from_zero, floats(2, 5, 3))


def networks(operator: Any, gates: int) -> tuple[Case, ...]:
    cases = (network(operator, gates, 2, 2, True), network(operator, gates, 1, 1, False))
    return (*cases, *(in_dtype(case, dtype) for case in cases for dtype in OTHER_DTYPES))


OTHER_DTYPES = (torch.float64, torch.float16)


def in_dtype(case: Case, dtype: torch.dtype) -> Case:
    """Runs the network in another dtype, with all tensors cast."""
    function, inputs = case.function, case.inputs

    def run(*tensors: torch.Tensor) -> Any:
        return function(*tensors, dtype=dtype)

    return Case(run, *(tensor.to(dtype) for tensor in inputs))


def projected(layers: int, bidirectional: bool, biases: bool) -> Case:
    """An LSTM whose hidden state of 4 is projected to 2."""
    torch.manual_seed(0)
    lstm = torch.nn.LSTM(
        3, 4, layers, biases, bidirectional=bidirectional, proj_size=2, batch_first=biases
    )
    return Case(lstm.eval(), floats(5, 6, 3))


def cell(operator: Any, gates: int, biases: bool) -> Case:
    params = parameters(gates, 1, 1, biases)

    def run(x: torch.Tensor, h: torch.Tensor) -> Any:
        return operator(x, [h, h] if operator is aten.lstm_cell else h, *params)

    return Case(run, floats(5, 3), floats(5, 4))


ROWS = [
    Row("aten::lstm.input", cases=networks(aten.lstm.input, 4)),
    Row(
        "aten::lstm.input",
        name="projected lstm",
        cases=(projected(2, True, True), projected(1, False, False)),
    ),
    Row("aten::gru.input", cases=networks(aten.gru.input, 3)),
    Row("aten::rnn_tanh.input", cases=networks(aten.rnn_tanh.input, 1)),
    Row("aten::rnn_relu.input", cases=networks(aten.rnn_relu.input, 1)),
    Row("aten::lstm_cell", cases=(cell(aten.lstm_cell, 4, True), cell(aten.lstm_cell, 4, False))),
    Row("aten::gru_cell", cases=(cell(aten.gru_cell, 3, True), cell(aten.gru_cell, 3, False))),
    Row("aten::rnn_tanh_cell", cases=(cell(aten.rnn_tanh_cell, 1, True),)),
    Row("aten::rnn_relu_cell", cases=(cell(aten.rnn_relu_cell, 1, False),)),
]
