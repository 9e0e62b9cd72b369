"""Recurrent networks over packed sequences, which torch.export cannot capture."""

import pytest
import torch
from torch import nn

from .running import check


class Packed(nn.Module):
    def __init__(self, network: nn.Module, enforce_sorted: bool = False) -> None:
        super().__init__()
        self.network = network
        self.batch_first: bool = network.batch_first
        self.enforce_sorted = enforce_sorted

    def forward(self, x: torch.Tensor, lengths: torch.Tensor):
        sequences = nn.utils.rnn.pack_padded_sequence(
            x, lengths, self.batch_first, self.enforce_sorted
        )
        y, states = self.network(sequences)
        padded, lengths = nn.utils.rnn.pad_packed_sequence(y, self.batch_first)
        return padded, lengths, states


NETWORKS = {
    "lstm": nn.LSTM(3, 4, batch_first=True),
    "deep lstm": nn.LSTM(3, 4, num_layers=2, bidirectional=True),
    "projected lstm": nn.LSTM(3, 4, bidirectional=True, proj_size=2, batch_first=True),
    "gru": nn.GRU(3, 4, num_layers=2, bidirectional=True, batch_first=True),
    "gru of float64": nn.GRU(3, 4, bidirectional=True, bias=False).double(),
    "tanh": nn.RNN(3, 4, batch_first=True),
    "relu": nn.RNN(3, 4, bidirectional=True, nonlinearity="relu"),
}


def calls(network: nn.Module, *lengths: list[int]) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Returns a batch per list of lengths, one step longer than its longest sequence."""
    torch.manual_seed(0)
    dtype = next(network.parameters()).dtype
    batches = [torch.randn(len(each), max(each) + 1, 3, dtype=dtype) for each in lengths]
    if not network.batch_first:
        batches = [batch.transpose(0, 1).contiguous() for batch in batches]
    return list(zip(batches, map(torch.tensor, lengths), strict=True))


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("way", ["scripted", "traced"])
def test_network(name: str, way: str) -> None:
    module = Packed(NETWORKS[name].eval())
    batches = calls(module.network, [5, 2, 4], [1, 3], [7])
    script = torch.jit.script(module) if way == "scripted" else torch.jit.trace(module, batches[0])
    sizes = ["batch", "time"] if module.batch_first else ["time", "batch"]
    check(script, batches, (dict(enumerate(sizes)), {0: "batch"}))


def test_sorted_lengths() -> None:
    module = torch.jit.script(Packed(nn.LSTM(3, 4).eval(), enforce_sorted=True))
    batches = calls(module.network, [5, 4, 4, 1], [2, 2])
    check(module, batches, ({0: "time", 1: "batch"}, {0: "batch"}))


class Fixed(nn.Module):
    def forward(self, x: torch.Tensor, lengths: torch.Tensor):
        packed = nn.utils.rnn.pack_padded_sequence(x, lengths)
        return nn.utils.rnn.pad_packed_sequence(packed, padding_value=-2.5, total_length=8)


def test_padding_and_total_length() -> None:
    module = torch.jit.script(Fixed())
    batches = [(torch.randn(5, 3, 2, 4), torch.tensor([5, 3, 1]))]
    batches.append((torch.randn(8, 2, 2, 4), torch.tensor([8, 3])))
    check(module, batches, ({0: "time", 1: "batch"}, {0: "batch"}))
