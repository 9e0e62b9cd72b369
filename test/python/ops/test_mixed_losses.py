"""Losses of tensors with different dtypes have the dtypes of eager."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from models import routes
from torch import Tensor

LOSSES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "hinge_embedding": lambda x, y: F.hinge_embedding_loss(x, y.sign()),
    "hinge_embedding, none": lambda x, y: F.hinge_embedding_loss(
        x, y.sign(), margin=0.5, reduction="none"
    ),
    "cosine_embedding": lambda x, y: F.cosine_embedding_loss(x, y, y[:, 0].sign(), margin=0.1),
    "cosine_embedding, sum": lambda x, y: F.cosine_embedding_loss(
        x, y, x[:, 1].sign(), reduction="sum"
    ),
    "cross_entropy": lambda x, y: F.cross_entropy(x, y.float().softmax(-1).to(y.dtype)),
    "cross_entropy, smooth": lambda x, y: F.cross_entropy(
        x, y.sigmoid(), label_smoothing=0.1, reduction="sum"
    ),
    "cross_entropy, weight": lambda x, y: F.cross_entropy(
        x, x.sigmoid(), weight=y[0].abs() + 1, reduction="none"
    ),
    "poisson": lambda x, y: F.poisson_nll_loss(x, y.abs() + 1, full=True),
    "poisson, no log": lambda x, y: F.poisson_nll_loss(
        x.abs() + 1, y, log_input=False, reduction="none"
    ),
    "mse": lambda x, y: F.mse_loss(x, y),
    "kl": lambda x, y: F.kl_div(x, y.abs() + 1, reduction="batchmean"),
    "binary_cross_entropy": lambda x, y: F.binary_cross_entropy_with_logits(x, y.sigmoid()),
    "margin_ranking": lambda x, y: F.margin_ranking_loss(x, y, y.sign()),
}
DTYPES = (torch.float32, torch.float64, torch.float16, torch.int64)


@pytest.mark.parametrize("route", ["fx", "traced"])
@pytest.mark.parametrize("name", LOSSES)
def test_dtypes_of_two(name: str, route: str) -> None:
    loss = LOSSES[name]
    generator = torch.Generator().manual_seed(3)
    numbers = torch.randn(2, 4, 3, generator=generator) * 2
    pairs = []
    for dtypes in itertools.permutations(DTYPES, 2):
        x, y = (each.to(dtype) for each, dtype in zip(numbers, dtypes, strict=True))
        try:
            loss(x, y)
        except RuntimeError:  # eager has no such loss
            continue
        pairs.append((x, y))
    assert len(pairs) > 3

    def losses(*tensors: Tensor) -> tuple[Tensor, ...]:
        return tuple(loss(x, y) for x, y in zip(tensors[::2], tensors[1::2], strict=True))

    inputs = tuple(itertools.chain(*pairs))
    results = routes.run(routes.session(routes.export(losses, inputs, route)), inputs)
    for (x, y), result, expected in zip(pairs, results, losses(*inputs), strict=True):
        # An argument of a low precision may be rounded before it is promoted.
        tolerance = 5e-3 if torch.float16 in (x.dtype, y.dtype) else 2e-5
        torch.testing.assert_close(
            torch.as_tensor(result), expected, rtol=tolerance, atol=tolerance
        )
