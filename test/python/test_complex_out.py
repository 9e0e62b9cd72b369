"""out= tensors that are complex."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from models.calling import Calling
from models.recording import exported

X = torch.tensor([1 + 2j, -0.5 - 1j])
Y = torch.tensor([0.3 - 1j, 2 + 0.5j])

CALLS: dict[str, Callable[[torch.Tensor, torch.Tensor, torch.Tensor], Any]] = {
    "where": lambda x, y, out: torch.where(x.real > 0, x, y, out=out),
    "where of a number": lambda x, y, out: torch.where(x.real > 0, x, x.imag, out=out),
    "take": lambda x, y, out: torch.take(x, torch.tensor([1, 0, 1]), out=out),
    "masked_select": lambda x, y, out: torch.masked_select(x, y.real > 1, out=out),
    "complex": lambda x, y, out: torch.complex(x.real, y.imag, out=out),
    "polar": lambda x, y, out: torch.polar(x.real, y.imag, out=out),
    "rfft": lambda x, y, out: torch.fft.rfft(x.real, out=out),
    "angle": lambda x, y, out: torch.angle(x, out=out),
    "add": lambda x, y, out: torch.add(x, y.real, out=out),
}


@pytest.mark.parametrize("name", CALLS)
def test_out(name: str) -> None:
    def call(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        out = torch.empty(0, dtype=torch.complex64)
        CALLS[name](x, y, out)
        return out

    (result,) = exported(Calling(call), (X, Y))(X, Y)
    torch.testing.assert_close(torch.as_tensor(result), torch.view_as_real(call(X, Y)))
