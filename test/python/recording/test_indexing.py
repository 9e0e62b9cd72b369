"""Native capture of indices that are 0-d tensors, which PyTorch takes for numbers."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from models.calling import Calling
from models.recording import Function, assert_recorded, function_id


def one(x: torch.Tensor, i: torch.Tensor) -> Any:
    return x[i], x[:, i], x[..., i, 1], x[None, i, ..., None], x[i, i]


def beside_gathered_elements(x: torch.Tensor, i: torch.Tensor) -> Any:
    mask = torch.tensor([True, False, True, True])
    return (
        x[:, i, :, [-1]],
        x[i, :, [0, 1]],
        x[[0, 1], ..., i],
        x[..., i, mask],
        x[:, torch.tensor([[0, 1]]), i],
        x[True, i],
    )


def views(x: torch.Tensor, i: torch.Tensor) -> Any:
    x = x * 1
    y = x[:, i, 1:]
    y += 1
    return x, y


def writes(x: torch.Tensor, i: torch.Tensor) -> Any:
    x = x * 1
    x[i] = 1
    x[:, i, 1:] = x[:, 0, 1:] * 2
    x[:, i, [0, 2]] = 3
    x[1, ..., i] *= 4
    return x


def of_a_table(x: torch.Tensor, i: torch.Tensor) -> Any:
    table = torch.arange(12.0).reshape(3, 4)
    return x + table[i, 0], table[i % 3][:2] + x[0, 0, 0, 0]


@pytest.mark.parametrize(
    "program", [one, beside_gathered_elements, views, writes, of_a_table], ids=function_id
)
def test_indices_without_dimensions(program: Function) -> None:
    x = torch.randn(3, 3, 5, 4, generator=torch.Generator().manual_seed(0))
    i = torch.tensor(1)
    longer = torch.randn(3, 3, 8, 4, generator=torch.Generator().manual_seed(1))
    other = (longer, torch.tensor(-2))
    assert_recorded(Calling(program), (({2: "n"}, None),), (x, i), other, (longer, torch.tensor(0)))


def masked(x: torch.Tensor, y: torch.Tensor) -> Any:
    yes = x.sum() > 0
    return x[yes], x[:, yes], x[yes, [1]], x[1, yes, 1:], x[..., yes]


def masked_writes(x: torch.Tensor, y: torch.Tensor) -> Any:
    a, b, c = x.clone(), x.clone(), x.clone()
    a[a.sum() > 0] = y
    b[:, b.sum() < 0] = 5.0
    c[c[0, 0] > 0, 1] += 2
    return a, b, c


@pytest.mark.parametrize("program", [masked, masked_writes], ids=function_id)
def test_masks_without_dimensions(program: Function) -> None:
    x, y = torch.arange(1.0, 13.0).reshape(3, 4), torch.ones(4)
    longer = torch.arange(1.0, 21.0).reshape(5, 4)
    assert_recorded(Calling(program), (({0: "n"}, None),), (x, y), (-longer, y), (longer, y))


def test_an_index_of_each_row() -> None:
    def program(x: torch.Tensor, i: torch.Tensor) -> Any:
        return torch.vmap(lambda row, at: row[at])(x, i)

    x = torch.randn(3, 4)
    i = torch.tensor([1, 3, 0])
    assert_recorded(Calling(program), (({0: "n"}, {0: "n"}),), (x, i), (x[1:], i[1:]))
