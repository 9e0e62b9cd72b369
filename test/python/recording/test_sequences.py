"""Native capture of packed sequences and of bags of embeddings, whose lengths are data."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from models.recording import assert_recorded, reason_of
from torch import nn
from torch.nn.utils import rnn


class Packed(nn.Module):
    def __init__(self, network: nn.Module, enforce_sorted: bool) -> None:
        super().__init__()
        self.network = network
        self.enforce_sorted = enforce_sorted

    def forward(self, x: torch.Tensor, lengths: torch.Tensor) -> Any:
        first = self.network.batch_first
        packed = rnn.pack_padded_sequence(x, lengths, first, self.enforce_sorted)
        packed, states = self.network(packed)
        y, lengths = rnn.pad_packed_sequence(packed, first, padding_value=-1.5)
        return y, lengths, states


NETWORKS = [
    nn.LSTM(3, 4, batch_first=True),
    nn.LSTM(3, 4, num_layers=2, bidirectional=True),
    nn.LSTM(3, 4, proj_size=2, batch_first=True),
    nn.GRU(3, 4, bidirectional=True),
    nn.RNN(3, 4, batch_first=True),
]


def batch_of(network: nn.Module, *lengths: int) -> tuple[torch.Tensor, torch.Tensor]:
    """A batch that is one step longer than its longest sequence."""
    x = torch.randn(
        len(lengths), max(lengths) + 1, 3, generator=torch.Generator().manual_seed(lengths[0])
    )
    return x if network.batch_first else x.transpose(0, 1).contiguous(), torch.tensor(lengths)


@pytest.mark.parametrize("enforce_sorted", [True, False])
@pytest.mark.parametrize("network", NETWORKS, ids=str)
def test_packed_sequences(network: nn.Module, enforce_sorted: bool) -> None:
    lengths = [(5, 4, 2), (3, 1), (7,)] if enforce_sorted else [(2, 5, 4), (1, 3), (7,)]
    names = ("batch", "time") if network.batch_first else ("time", "batch")
    assert_recorded(
        Packed(network, enforce_sorted).eval(),
        (dict(enumerate(names)), {0: "batch"}),
        *(batch_of(network, *each) for each in lengths),
    )


class Chunks(nn.Module):
    """Runs the network on pieces of ten steps, and of as many steps as there are pieces."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, x: torch.Tensor) -> Any:
        b, t, n = x.shape
        x = nn.functional.pad(x, (0, 0, 0, 10 - t % 10)).reshape(b, -1, 10, n)
        pieces = x.shape[1]
        return (
            self.network(x.reshape(b * pieces, 10, n)),
            self.network(x.new_zeros(b * ((t - t % 10 + 5) // 10), 3, n)),
            self.network(x.transpose(1, 2).reshape(b * 10, pieces, n)),
        )


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
def test_batches_of_chunks(kind: Any) -> None:
    model = Chunks(kind(3, 4, batch_first=True, bidirectional=True)).eval()
    examples = [(torch.randn(b, t, 3),) for b, t in ((2, 33), (1, 10), (3, 57))]
    assert_recorded(model, ({0: "batch", 1: "time"},), *examples)


class Bags(nn.Module):
    def __init__(self, **options: Any) -> None:
        super().__init__()
        self.bags = nn.EmbeddingBag(10, 4, **options)

    def forward(self, *inputs: torch.Tensor) -> Any:
        y = self.bags(*inputs)
        return y, y * y.shape[0]


def numbers(*sizes: int) -> torch.Tensor:
    return torch.randint(0, 10, sizes, generator=torch.Generator().manual_seed(sizes[0]))


@pytest.mark.parametrize("padding", [None, 3])
@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_bags(mode: str, padding: int | None) -> None:
    module = Bags(mode=mode, padding_idx=padding).eval()
    assert_recorded(
        module,
        (({0: "batch", 1: "n"},),),
        (numbers(2, 5),),
        (numbers(3, 7),),
        (numbers(1, 1),),
    )
    assert_recorded(
        module,
        (({0: "n"}, {0: "bags"}),),
        (numbers(7), torch.tensor([0, 3, 5])),
        (numbers(9), torch.tensor([0, 4])),
        (numbers(1), torch.tensor([0])),
    )


def test_weighted_bags() -> None:
    assert_recorded(
        Bags(mode="sum", include_last_offset=True).eval(),
        (({0: "n"}, {0: "bags"}, {0: "n"}),),
        (numbers(7), torch.tensor([0, 3, 7]), torch.randn(7)),
        (numbers(9), torch.tensor([0, 4, 6, 9]), torch.randn(9)),
    )


class UnusedResults(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(10, 4))

    def forward(self, indices: torch.Tensor, offsets: torch.Tensor) -> Any:
        y, of_elements, sizes, largest = torch.embedding_bag(self.weight, indices, offsets, mode=2)
        return y, of_elements.shape[0], sizes.dim(), largest.dim()


def test_results_for_the_backward_pass_have_unknown_sizes() -> None:
    arguments = (numbers(7), torch.tensor([0, 3, 5]))
    reason = reason_of(UnusedResults().eval(), arguments, ({0: "n"}, {0: "bags"}))
    assert reason.startswith("no input has the size u")


class Pieces(nn.Module):
    """Cuts a tensor into pieces of the lengths that an input has."""

    def forward(self, x: torch.Tensor, lengths: torch.Tensor) -> Any:
        pieces = x.transpose(0, 1).split(lengths.tolist(), 1)
        longest = torch.split(x * 2, lengths.tolist())[0]
        return torch.stack([piece.sum(1) for piece in pieces]), longest, longest.shape[0] * x


@pytest.mark.parametrize("count", ["static", "dynamic"])
def test_pieces_whose_lengths_are_data(count: str) -> None:
    examples = [
        (torch.randn(sum(lengths), 3), torch.tensor(lengths))
        for lengths in ([2, 4], [1, 1], [0, 3], [5, 0])
    ]
    if count == "static":
        assert_recorded(Pieces(), ({0: "n"}, None), *examples)
        return
    program = assert_recorded(Pieces(), ({0: "n"}, {0: "count"}), *examples)
    assert program.export_report["capture"]["guards"] == []
