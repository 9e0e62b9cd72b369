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


SQUARE = torch.tensor([[2 + 1j, 0.5], [0.3 - 1j, 1.5]])
REAL: dict[str, Callable[[torch.Tensor, list[torch.Tensor]], Any]] = {
    "eigvalsh": lambda x, out: torch.linalg.eigvalsh(x @ x.mH, out=out[0]),
    "svdvals": lambda x, out: torch.linalg.svdvals(x, out=out[0]),
    "matrix_norm": lambda x, out: torch.linalg.matrix_norm(x, out=out[0]),
    "abs": lambda x, out: torch.abs(x, out=out[0]),
    "irfft": lambda x, out: torch.fft.irfft(x, out=out[0]),
    "slogdet": lambda x, out: torch.linalg.slogdet(x, out=(out[1], out[0])),
    "eigh": lambda x, out: torch.linalg.eigh(x @ x.mH, out=(out[0], out[1])),
    "any": lambda x, out: torch.any(x, 0, out=out[2]),
    "eq": lambda x, out: torch.eq(x, x.mT, out=out[2]),
}


@pytest.mark.parametrize("name", REAL)
def test_real_results_of_complex_tensors(name: str) -> None:
    def call(x: torch.Tensor) -> list[torch.Tensor]:
        out = [torch.empty(0), torch.empty(0, dtype=torch.complex64)]
        out.append(torch.empty(0, dtype=torch.bool))
        REAL[name](x, out)
        return [out[0], out[2]]

    results = exported(Calling(call), (SQUARE,))(SQUARE)
    torch.testing.assert_close([torch.as_tensor(each) for each in results], call(SQUARE))
