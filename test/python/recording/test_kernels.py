"""Native capture of operators for which PyTorch has no meta kernel, or that depend on elements."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from models.calling import Calling
from models.recording import Function, assert_recorded, function_id
from torch.nn import functional as F


def indices(n: int) -> tuple[torch.Tensor]:
    return (torch.randint(0, 6, (n, 3), generator=torch.Generator().manual_seed(n)),)


def one_hot_of_classes(x: torch.Tensor) -> Any:
    return F.one_hot(x, 6).float() @ torch.ones(6, 2)


def one_hot_of_the_largest(x: torch.Tensor) -> Any:
    hot = F.one_hot(x)
    return hot * 2, hot.shape[-1]


def counted(x: torch.Tensor) -> Any:
    flat = x.reshape(-1)
    return (
        torch.bincount(flat),
        torch.bincount(flat, minlength=9),
        torch.bincount(flat, flat.float()),
    )


def quantized_in_training(x: torch.Tensor) -> Any:
    return torch.fake_quantize_per_tensor_affine(x.float(), 0.1, 0, -128, 127) * 2


def combinations(x: torch.Tensor) -> Any:
    return torch.combinations(torch.arange(4)) + x.sum()


def eight_bits(x: torch.Tensor) -> Any:
    return (x * 0.3).to(torch.float8_e4m3fn).float(), (x * 0.7).to(torch.float8_e5m2).half()


@pytest.mark.parametrize(
    "function",
    [
        one_hot_of_classes,
        one_hot_of_the_largest,
        counted,
        quantized_in_training,
        combinations,
        eight_bits,
    ],
    ids=function_id,
)
@pytest.mark.parametrize("dynamic_shapes", [None, (({0: "n"},),)], ids=["static", "dynamic"])
def test_recorded(function: Function, dynamic_shapes: Any) -> None:
    sizes = (5, 8, 1) if dynamic_shapes else (5,)
    assert_recorded(Calling(function), dynamic_shapes, *map(indices, sizes))
