"""TorchScript divides floats in its own way: the quotient is rounded before the floor."""

import pytest
import torch
from torch import Tensor, nn

from .running import check


class OfElements(nn.Module):
    def forward(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        a, b = float(x.sum()), float(y.sum())
        return torch.tensor(a // b), torch.tensor(a % b)


class OfSizes(nn.Module):
    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        n = x.size(0)
        return x * (n // 0.1), x * (n % 0.1), x * (-n / 2 % 0.7)


def number(value: float) -> Tensor:
    return torch.tensor([value], dtype=torch.float64)


@pytest.mark.parametrize("divisor", [0.1, -0.7, 3.0])
def test_of_elements(divisor):
    inputs = [(number(value), number(divisor)) for value in (5.0, -3.5, 0.3, 6.0)]
    check(torch.jit.script(OfElements()), inputs)


def test_of_sizes():
    inputs = [(torch.ones(size),) for size in (5, 1, 7, 10)]
    check(torch.jit.script(OfSizes()), inputs, [{0: "n"}])
