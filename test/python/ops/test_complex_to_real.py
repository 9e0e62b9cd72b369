"""Sums and products of complex tensors with a real dtype use the real parts."""

import pytest
import torch
from jit.running import check

X = torch.tensor([[1 + 2j, 3 - 1j], [2 + 0j, -1 + 1j]])


@pytest.mark.filterwarnings("ignore:Casting complex")
@pytest.mark.parametrize(
    "call",
    [
        "prod(dtype=torch.int32)",
        "prod(dtype=torch.float64)",
        "prod(0, dtype=torch.int32)",
        "prod(1, keepdim=True, dtype=torch.float32)",
        "sum(dtype=torch.int32)",
        "sum(0, dtype=torch.float32)",
        "cumsum(0, dtype=torch.int64)",
        "prod(dtype=torch.complex64)",
        "sum(dtype=torch.complex128)",
    ],
)
def test_scripted(call: str) -> None:
    result = f"x.{call}"
    if "complex" in call:
        result = f"torch.view_as_real({result})"
    source = f"def program(x: Tensor):\n    return {result}, {result}.reshape(-1)\n"
    check(torch.jit.CompilationUnit(source).program, [(X,), (X * 2,)], opsets=(20,))
