"""Casts to float8: only e4m3fn saturates in PyTorch."""

from __future__ import annotations

import pytest
import torch
from models.recording import exported
from torch import nn

FLOAT8 = (
    torch.float8_e4m3fn,
    torch.float8_e4m3fnuz,
    torch.float8_e5m2,
    torch.float8_e5m2fnuz,
)
inf, nan = float("inf"), float("nan")
X = torch.tensor([[1e5, -1e5, 300.0, 449.0], [1.3, inf, -inf, nan]])


class Casting(nn.Module):
    def __init__(self, dtype: torch.dtype, back: bool) -> None:
        super().__init__()
        self.dtype, self.back = dtype, back

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x.to(self.dtype)
        return y.float() if self.back else y


@pytest.mark.parametrize("back", [True, False], ids=["back", "result"])
@pytest.mark.parametrize("dtype", FLOAT8)
def test_numbers_that_are_too_large(dtype: torch.dtype, back: bool) -> None:
    module = Casting(dtype, back)
    (found,) = exported(module, (X,), ({0: "n"},))(X)
    wanted = module(X)
    assert found.dtype == wanted.dtype
    torch.testing.assert_close(found.float(), wanted.float(), rtol=0, atol=0, equal_nan=True)


def test_no_elements() -> None:
    program = exported(Casting(torch.float8_e5m2, False), (X,), ({0: "n"},))
    assert program(X[:0])[0].shape == (0, 4)
