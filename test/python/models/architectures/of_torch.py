"""Models of torch.nn alone."""

from collections.abc import Callable

import torch
from torch import nn

from models.architecture import Architecture, Input, floats, tokens


class Tagger(nn.Module):
    """A recurrent network over tokens, in both directions."""

    def __init__(self, kind: Callable[..., nn.Module]) -> None:
        super().__init__()
        self.embedding = nn.Embedding(99, 16)
        self.rnn = kind(16, 12, num_layers=2, batch_first=True, bidirectional=True)
        self.head = nn.Linear(24, 5)

    def forward(self, input_ids: torch.Tensor) -> torch.Tensor:
        return self.head(self.rnn(self.embedding(input_ids))[0])


class Stepper(nn.Module):
    """An LSTM that takes a state and returns the next one."""

    def __init__(self) -> None:
        super().__init__()
        self.rnn = nn.LSTM(8, 12, num_layers=2)

    def forward(
        self, x: torch.Tensor, h: torch.Tensor, c: torch.Tensor
    ) -> tuple[torch.Tensor, ...]:
        out, (h, c) = self.rnn(x, (h, c))
        return out, h, c


class BagClassifier(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.bag = nn.EmbeddingBag(99, 16, mode="mean", include_last_offset=True)
        self.head = nn.Linear(16, 3)

    def forward(self, words: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
        return self.head(self.bag(words, offsets))


class MaskedEncoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(32, 4, 37, batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)

    def forward(self, x: torch.Tensor, padding: torch.Tensor) -> torch.Tensor:
        return self.encoder(x, src_key_padding_mask=padding == 0)


class CausalTransformer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.transformer = nn.Transformer(32, 4, 2, 2, 37, batch_first=True)

    def forward(self, source: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        causal = nn.Transformer.generate_square_subsequent_mask(target.shape[1])
        return self.transformer(source, target, tgt_mask=causal, tgt_is_causal=True)


def _offsets(shape: tuple[int, ...]) -> torch.Tensor:
    """Bags of one, two, three ... words; the last bag is empty."""
    counts = torch.arange(shape[0] - 1).flip(0)
    return torch.cat([torch.zeros(1, dtype=torch.int64), counts.cumsum(0)])


def _padding(shape: tuple[int, ...]) -> torch.Tensor:
    ones = torch.ones(shape, dtype=torch.int64)
    ones[-1, shape[1] - 3 :] = 0
    return ones


_STATE = floats(2, "batch", 12)

TORCH = [
    Architecture("nn_lstm", lambda: Tagger(nn.LSTM), {"input_ids": tokens("batch", 12)}),
    Architecture("nn_gru", lambda: Tagger(nn.GRU), {"input_ids": tokens("batch", 12)}),
    Architecture("nn_rnn", lambda: Tagger(nn.RNN), {"input_ids": tokens("batch", 12)}),
    Architecture("nn_lstm_state", Stepper, {"x": floats(12, "batch", 8), "h": _STATE, "c": _STATE}),
    Architecture(
        "nn_embedding_bag",
        BagClassifier,
        {"words": tokens("words"), "offsets": Input(_offsets, ("bags",))},
        {"words": (10, 21), "bags": (6, 8)},
    ),
    Architecture(
        "nn_transformer_encoder",
        MaskedEncoder,
        {
            "x": floats("batch", "sequence", 32),
            "padding": Input(_padding, ("batch", "sequence")),
        },
    ),
    Architecture(
        "nn_transformer",
        CausalTransformer,
        {
            "source": floats("batch", "sequence", 32),
            "target": floats("batch", "decoder_sequence", 32),
        },
    ),
]
