"""Products of matrices whose number is 0, which ONNX Runtime's MatMul does not broadcast."""

from __future__ import annotations

import pytest
import torch
from jit.running import check
from models.calling import Calling
from models.recording import Function, assert_equal_to_eager, exported

SOME, NONE = torch.tensor([1.0, -2.0, 3.0, 4.0]), -torch.ones(4)


def kept(x: torch.Tensor, *shape: int) -> torch.Tensor:
    """As many tensors of ones as x has positive elements."""
    return x[x > 0].reshape(-1, *[1] * len(shape)).sign() * torch.ones(shape)


FUNCTIONS: dict[str, Function] = {
    "rows times a vector": lambda x: kept(x, 4) @ x,
    "matrices times a vector": lambda x: kept(x, 3, 4) @ x,
    "a vector times matrices": lambda x: x @ kept(x, 4, 2),
    "a matrix times matrices": lambda x: x.reshape(2, 2) @ kept(x, 2, 3),
    "batches": lambda x: kept(x, 2, 3, 4) @ x.expand(2, 4).unsqueeze(-1),
    "a part of it": lambda x: kept(x[1:], 1, 2, 5).expand(-1, 3, 2, 5) @ torch.ones(3, 5, 2),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_products(name: str) -> None:
    module = Calling(FUNCTIONS[name])
    program = exported(module, (SOME,))
    assert_equal_to_eager(program, module, (SOME,), (NONE,))


def test_convolutions_in_float64() -> None:
    @torch.jit.script
    def grouped(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        inputs = x[x > 0].reshape(-1, 2, 3).double()
        return torch.conv1d(inputs, weight, groups=2)

    weight = torch.randn(4, 1, 2, dtype=torch.float64)
    check(grouped, [(torch.ones(12), weight), (torch.zeros(12), weight)])


def test_contractions_over_axes_of_one_tensor_alone() -> None:
    @torch.jit.script
    def contracted(x: torch.Tensor, start: torch.Tensor) -> torch.Tensor:
        return torch.einsum("ijk,ljk->l", x, x[int(start) :])

    x = torch.randn(4, 5, 3)
    check(contracted, [(x, torch.tensor(1)), (x, torch.tensor(4)), (x, torch.tensor(9))])
