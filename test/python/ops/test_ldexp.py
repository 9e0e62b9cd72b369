"""ldexp, whose power of two may be larger than its dtype allows."""

from __future__ import annotations

import pytest
import torch
from models.recording import exported

FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
inf, nan = float("inf"), float("nan")


def ldexp(x: torch.Tensor, exponent: torch.Tensor) -> torch.Tensor:
    return torch.ldexp(x, exponent)


@pytest.mark.parametrize("dtype", FLOATS)
def test_power_of_an_integer(dtype: torch.dtype) -> None:
    """Only the product may overflow, become 0, or lose digits."""
    info = torch.finfo(dtype)
    numbers = torch.tensor([info.tiny, 1.3, -info.max, 0.0, inf, nan], dtype=dtype)
    x = numbers[:, None]
    limits = (2200, 1100, 300, 160, 140, 127, 25, 3, 0)
    exponents = torch.tensor([*limits, *(-limit for limit in limits)])
    program = exported(ldexp, (x, exponents))
    torch.testing.assert_close(
        program(x, exponents)[0], torch.ldexp(x, exponents), rtol=0, atol=0, equal_nan=True
    )


@pytest.mark.parametrize("of_exponent", FLOATS)
@pytest.mark.parametrize("dtype", FLOATS)
def test_power_of_a_float(dtype: torch.dtype, of_exponent: torch.dtype) -> None:
    """It has the dtype of the exponent; ONNX Runtime may leave the rounding to float16 out."""
    x = torch.tensor([1.3, -2.0, 0.5], dtype=dtype)
    exponent = torch.tensor([0.5, 3.0, -1.25], dtype=of_exponent)
    program = exported(ldexp, (x, exponent))
    expected = torch.ldexp(x, exponent)
    rounding = max(torch.finfo(each).eps for each in (expected.dtype, of_exponent))
    torch.testing.assert_close(program(x, exponent)[0], expected, rtol=2 * rounding, atol=0)
