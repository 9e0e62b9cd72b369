"""Programs with flex_attention."""

import torch
from torch import nn
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

from scenarios.scenario import Registry, floats

SCENARIOS = Registry()
scenario = SCENARIOS


def heads(batch: int, length: int, seed: int = 0, count: int = 2) -> torch.Tensor:
    """(batch, heads, length, 8)"""
    return floats(batch, count, length, 8, seed=seed)


def three(batch: int, length: int) -> tuple[torch.Tensor, ...]:
    """Returns query, key and value of one size."""
    return tuple(heads(batch, length, seed) for seed in range(3))


SETS = (three(2, 16), three(3, 16), three(1, 16))
BATCH = ({0: "batch"},) * 3
LENGTHS = (three(2, 16), three(3, 24), three(1, 33))
BATCH_AND_LENGTH = ({0: "batch", 2: "length"},) * 3


@scenario(*SETS, dynamic=BATCH)
def flex_plain(q, k, v):
    return flex_attention(q, k, v)


@scenario(*SETS, dynamic=BATCH)
def flex_scaled(q, k, v):
    return flex_attention(q, k, v, scale=0.25)


@scenario(*SETS, dynamic=BATCH)
def flex_causal_scores(q, k, v):
    def score(s, b, h, i, j):
        return torch.where(i >= j, s, -float("inf"))

    return flex_attention(q, k, v, score_mod=score)


@scenario(*SETS, dynamic=BATCH)
def flex_distance_bias(q, k, v):
    return flex_attention(
        q, k, v, score_mod=lambda s, b, h, i, j: s - (i - j).abs() * 0.1 * (h + 1)
    )


@scenario(*SETS, dynamic=BATCH)
class FlexLearnedBias(nn.Module):
    """A table of biases, indexed by the difference of positions."""

    def __init__(self):
        super().__init__()
        self.table = nn.Parameter(torch.randn(2, 64), requires_grad=False)

    def forward(self, q, k, v):
        def score(s, b, h, i, j):
            return s + self.table[h, i - j + 32]

        return flex_attention(q, k, v, score_mod=score)


@scenario(*SETS, dynamic=BATCH)
def flex_causal_blocks(q, k, v):
    mask = create_block_mask(lambda b, h, i, j: i >= j, None, None, 16, 16, device="cpu")
    return flex_attention(q, k, v, block_mask=mask)


@scenario(*SETS, dynamic=BATCH)
def flex_sliding_window(q, k, v):
    def window(b, h, i, j):
        return (i >= j) & (i - j < 4)

    mask = create_block_mask(window, None, None, 16, 16, device="cpu", BLOCK_SIZE=8)
    return flex_attention(q, k, v, block_mask=mask)


@scenario(*SETS, dynamic=BATCH)
def flex_blocks_and_scores(q, k, v):
    mask = create_block_mask(lambda b, h, i, j: i >= j, None, None, 16, 16, device="cpu")
    return flex_attention(q, k, v, score_mod=lambda s, b, h, i, j: s * 0.5 + h, block_mask=mask)


@scenario(*((q, k[:, :1], v[:, :1]) for q, k, v in SETS), dynamic=BATCH)
def flex_grouped_heads(q, k, v):
    return flex_attention(q, k, v, enable_gqa=True)


@scenario(*LENGTHS, dynamic=BATCH_AND_LENGTH)
def flex_dynamic_length(q, k, v):
    return flex_attention(q, k, v, score_mod=lambda s, b, h, i, j: torch.where(i >= j, s, -1e30))


@scenario(*SETS, dynamic=BATCH)
def flex_rows_without_keys(q, k, v):
    mask = create_block_mask(lambda b, h, i, j: i > j, None, None, 16, 16, device="cpu")
    return flex_attention(q, k, v, block_mask=mask)


@scenario(*((q, *three(q.shape[0], 24)[1:]) for q, _, _ in SETS), dynamic=BATCH)
def flex_cross_attention(q, k, v):
    return flex_attention(q, k, v, score_mod=lambda s, b, h, i, j: s + (i * 0.1 - j * 0.05))


@scenario(
    *((*given, torch.arange(16) // size) for given, size in zip(SETS, (4, 8, 5), strict=True)),
    dynamic=(*BATCH, None),
)
def flex_documents(q, k, v, document):
    def same(s, b, h, i, j):
        return torch.where(document[i] == document[j], s, -float("inf"))

    return flex_attention(q, k, v, score_mod=same)


@scenario(*SETS, dynamic=BATCH)
def flex_with_log_sums(q, k, v):
    def score(s, b, h, i, j):
        return torch.where(i > j, s, -float("inf"))

    return flex_attention(q, k, v, score_mod=score, return_lse=True)


@scenario(*SETS, dynamic=BATCH)
def flex_table_row_by_row(q, k, v):
    table = torch.arange(32.0).reshape(2, 16).sin()
    limit = torch.tensor(5)

    def score(s, b, h, i, j):
        return torch.where(i - j < limit, s + table[h][j], s * 0.5)

    return flex_attention(q, k, v, score_mod=score)
