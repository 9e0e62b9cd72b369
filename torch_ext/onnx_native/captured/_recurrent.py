"""Decompositions of recurrent layers whose sequence length may be dynamic.

PyTorch's own decompositions run a Python loop over the sequence, which makes its length static.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor

from onnx_native.upstream import _upstream


@contextmanager
def loops() -> Iterator[None]:
    """Decomposes recurrent layers over sequences of dynamic length to ``while_loop``."""
    aten = torch.ops.aten
    with ExitStack() as stack:
        for op, loop in (
            (aten.lstm.input, _upstream.lstm_loop),
            (aten.gru.input, _upstream.gru_loop),
            (aten.rnn_tanh.input, _network(torch.tanh)),
            (aten.rnn_relu.input, _network(torch.relu)),
        ):
            chosen = _by_length(_upstream.decomposition_table[op], loop)
            stack.enter_context(_upstream.recurrence_as(op, chosen))
        yield


def _by_length(steps: Callable[..., Any], loop: Callable[..., Any]) -> Callable[..., Any]:
    """Returns the decomposition that selects `loop` if the length of the sequence is dynamic."""

    def decomposed(sequence: Tensor, *arguments: Any) -> Any:
        batch_first = arguments[-1]
        length = sequence.size(1 if batch_first else 0)
        return (loop if isinstance(length, torch.SymInt) else steps)(sequence, *arguments)

    return decomposed


def _network(activation: Callable[[Tensor], Tensor]) -> Callable[..., tuple[Tensor, Tensor]]:
    """Returns the decomposition of aten::rnn_tanh.input or aten::rnn_relu.input."""

    def layer(
        sequence: Tensor, first: Tensor, weights: Any, has_biases: bool, reverse: bool = False
    ) -> tuple[Tensor, Tensor]:
        outputs, last = _steps(
            activation, sequence.flip(0) if reverse else sequence, first, weights
        )
        return (outputs.flip(0) if reverse else outputs), last

    def network(
        sequence: Tensor,
        first: Tensor,
        weights: list[Tensor],
        has_biases: bool,
        num_layers: int,
        dropout: float,
        train: bool,
        bidirectional: bool,
        batch_first: bool,
    ) -> tuple[Tensor, Tensor]:
        outputs, last = _upstream.recurrent_layers(
            sequence,
            first.unbind(0),
            _upstream.layer_weights(weights, has_biases, False),
            has_biases,
            num_layers,
            dropout,
            train,
            bidirectional,
            batch_first,
            layer,
        )
        return outputs, torch.stack(last, 0)

    return network


def _steps(
    activation: Callable[[Tensor], Tensor], sequence: Tensor, first: Tensor, weights: Any
) -> tuple[Tensor, Tensor]:
    """Returns the outputs of one layer in one direction, and its last state."""
    input_weight, hidden_weight, *biases = weights
    projected = torch.nn.functional.linear(sequence, input_weight, *biases[:1])
    recurrent = [hidden_weight.clone(), *(bias.clone() for bias in biases[1:])]  # may be aliased
    length = projected.size(0)

    def goes_on(step: Tensor, outputs: Tensor, state: Tensor) -> Tensor:
        return step < length

    def advance(step: Tensor, outputs: Tensor, state: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        i: Any = step.item()
        _upstream.check(i >= 0)
        _upstream.check(i < length)
        state = activation(projected[i] + torch.nn.functional.linear(state, *recurrent))
        outputs = outputs.clone()
        outputs[i] = state
        return step + 1, outputs, state

    outputs = torch.empty(length, *first.shape, dtype=first.dtype, device=first.device)
    step = torch.tensor(0, dtype=torch.int64)
    _, outputs, state = _upstream.while_loop(goes_on, advance, [step, outputs, first.clone()])
    return outputs, state
