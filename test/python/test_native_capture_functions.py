"""Native capture of Python's functions of sizes: they stay symbolic."""

from __future__ import annotations

import math
import threading
from typing import Any

import pytest
import torch
from models.calling import Calling
from models.recording import (
    DYNAMIC,
    EXAMPLES,
    Function,
    X,
    assert_recorded,
    function_id,
    reason_of,
)
from torch.nn import functional as F


def lengths(x: torch.Tensor) -> Any:
    assert len(x) > 0
    return x * len(x), len(x[0]), len([1, 2]), len("ab")


def square_roots(x: torch.Tensor) -> Any:
    return x / math.sqrt(x.shape[1]), x * math.sqrt(x.shape[0] * 0.5), x * math.sqrt(2)


def roundings(x: torch.Tensor) -> Any:
    n = x.shape[1]
    return x[:, : round(n * 0.5)], x[:, : round(n / 4) + 1], torch.zeros(math.trunc(n * 0.7))


def roundings_of_elements(x: torch.Tensor) -> Any:
    number = x.mean().item() * 7
    return x * math.trunc(number), x * round(number), x * math.floor(number)


def quotients(x: torch.Tensor) -> Any:
    whole, rest = divmod(x.shape[1], 2)
    return x * whole + rest, divmod(7, 2)


def tensors_of_sizes(x: torch.Tensor) -> Any:
    batch, n, channels = x.shape
    return (
        torch.tensor(n),
        torch.tensor([batch, n, channels]),
        torch.tensor([[batch, 2], [n, 3]], dtype=torch.int32),
        torch.as_tensor([n / 2, 1]),
        torch.tensor(x.shape)[1:],
        x / torch.tensor(n),
        x.new_tensor([1, 2, 3, n]),
        x.new_tensor([[1.0], [2.0]]),
    )


def resized(x: torch.Tensor) -> Any:
    image = x[:, None]
    return F.interpolate(image, scale_factor=0.7, recompute_scale_factor=True, mode="bilinear")


RIGHT = [
    lengths,
    square_roots,
    roundings,
    roundings_of_elements,
    quotients,
    tensors_of_sizes,
    resized,
]


@pytest.mark.parametrize("function", RIGHT, ids=function_id)
def test_functions_of_sizes(function: Function) -> None:
    assert_recorded(Calling(function), (DYNAMIC,), *EXAMPLES)
    assert_recorded(Calling(function), None, EXAMPLES[0])


def blocks(x: torch.Tensor) -> Any:
    return torch.cat([x[:, i : i + 8] * (i + 1) for i in range(0, x.shape[1], 8)], 1)


def blocks_from_the_end(x: torch.Tensor) -> Any:
    return [x[:, -i:] for i in range(2, min(x.shape[1], 3) + 1)]


@pytest.mark.parametrize(
    ("function", "sizes"),
    [(blocks, (5, 1, 8)), (blocks, (13, 9, 16)), (blocks_from_the_end, (5, 3, 9))],
)
def test_a_loop_over_pieces(function: Function, sizes: tuple[int, ...]) -> None:
    examples = [(torch.randn(2, n, 4),) for n in sizes]
    with pytest.warns(UserWarning, match="valid only where"):
        assert_recorded(Calling(function), (DYNAMIC,), *examples)


def each_row(x: torch.Tensor) -> Any:
    return sum(x[:, i] for i in range(x.shape[1]))


def backwards(x: torch.Tensor) -> Any:
    return [x[:, i] for i in range(x.shape[1] - 1, -1, -1)]


def decimals(x: torch.Tensor) -> Any:
    return x * round(x.shape[1] / 3, 2)


@pytest.mark.parametrize("function", [each_row, backwards, decimals], ids=function_id)
def test_steps_aside(function: Function) -> None:
    assert reason_of(Calling(function), (X,), (DYNAMIC,))


def test_ranges_remain_ranges() -> None:
    found: list[Any] = []

    def elsewhere() -> None:
        found.append(list(range(3)))

    def asking(x: torch.Tensor) -> Any:
        found.append((isinstance(range(2), range), type(range(1, 3)), list(reversed(range(3)))))
        thread = threading.Thread(target=elsewhere)
        thread.start()
        thread.join()
        return x * range(5)[3]

    before = math.sqrt, torch.tensor
    assert_recorded(Calling(asking), (DYNAMIC,), *EXAMPLES)
    assert found[:2] == [(True, type(range(1)), [2, 1, 0]), [0, 1, 2]]
    assert before == (math.sqrt, torch.tensor)
    assert not {"len", "range", "divmod"} & globals().keys()
