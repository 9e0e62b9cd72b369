"""Constants that TorchScript makes of Python numbers, with the dtype of another tensor."""

import pytest
import torch

from .running import check

DTYPES = [
    *(torch.float32, torch.float64, torch.float16, torch.int64, torch.int16, torch.uint8),
    torch.bool,
]


class Written(torch.nn.Module):
    """Assignments convert the number to the tensor's dtype."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x * 1
        y[0] = 2.7
        y[1:3] = 0.5
        y[3] = True
        y[torch.tensor([4])] = 9.9
        y.view(-1)[5:].fill_(3.2)
        return y


class Masked(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x.clone()
        y[y > 2] = 1.5
        y[0] = -2.7
        return y


class Made(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> list[torch.Tensor]:
        return [
            torch.tensor(2.9, dtype=x.dtype),
            torch.tensor([0.5, 1.5, 0.0], dtype=x.dtype),
            torch.tensor([[True], [False]], dtype=x.dtype),
            torch.tensor([[3], [0]], dtype=x.dtype),
            torch.tensor([0.25, 0.0], dtype=torch.bool) & (x[:2] == x[:2]),
            torch.tensor(7.9, dtype=torch.int32) + x.numel(),
        ]


class Complex(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> list[torch.Tensor]:
        y = x * torch.tensor(2j)
        y[0] = 1.5
        y[1] = 2 - 1j
        return [
            torch.view_as_real(y),
            torch.view_as_real(torch.tensor(1.5 - 1j, dtype=torch.complex128) * x[0]),
            torch.view_as_real(torch.tensor([2.5, 1.0, 0.0], dtype=torch.complex64) * x[:3]),
        ]


def numbers(dtype: torch.dtype) -> torch.Tensor:
    return torch.tensor([0, 1, 4, 3, 0, 5, 2]).to(dtype)


@pytest.mark.parametrize("dtype", DTYPES)
def test_assigned_numbers(dtype):
    check(torch.jit.script(Written()), [(numbers(dtype),)])


@pytest.mark.parametrize("dtype", [torch.int64, torch.int8, torch.float32])
def test_numbers_assigned_to_a_mask(dtype):
    check(torch.jit.script(Masked()), [(numbers(dtype),), (-numbers(dtype)[:3],)], [{0: "n"}])


@pytest.mark.parametrize("dtype", DTYPES)
def test_tensors_of_numbers(dtype):
    check(torch.jit.script(Made()), [(numbers(dtype),)])


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64])
def test_tensors_of_complex_numbers(dtype):
    check(torch.jit.script(Complex()), [(numbers(dtype),)])
