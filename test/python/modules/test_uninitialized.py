"""Memory that nobody wrote to is no difference between a module and its model."""

from __future__ import annotations

from collections.abc import Callable

import onnx_native
import pytest
import torch
from torch import nn

X = torch.ones(3, 4)
MAKERS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "empty": lambda x: torch.empty(3, 4),
    "empty of int64": lambda x: torch.empty(3, 4, dtype=torch.int64),
    "empty of complex": lambda x: torch.empty(3, 4, dtype=torch.complex64).abs(),
    "empty_like": torch.empty_like,
    "new_empty": lambda x: x.new_empty(3, 4),
    "empty_strided": lambda x: torch.empty_strided((3, 4), (1, 3)),
    "new_empty_strided": lambda x: x.new_empty_strided((3, 4), (1, 3)),
    "empty_permuted": lambda x: torch.empty_permuted((3, 4), (1, 0)),
    "a channels-last one": lambda x: torch.empty(
        1, 3, 4, 1, memory_format=torch.channels_last
    ).squeeze(),
}


class Empty(nn.Module):
    def __init__(self, make: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.make = make

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        made = self.make(x)
        return x + made, made


@pytest.fixture(autouse=True)
def _dirty_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Puts other elements where the next tensors lie before each run of the module."""
    runs = iter(range(1, 1000))
    forward = Empty.forward

    def after_others(self: Empty, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        value = next(runs)
        for size in (12, 24):
            freed = [torch.full((size,), float(value)) for _ in range(20)]
            del freed
        return forward(self, x)

    monkeypatch.setattr(Empty, "forward", after_others)


@pytest.mark.parametrize("capture", ["native", "torch.export"])
@pytest.mark.parametrize("name", MAKERS)
def test_is_no_difference(name: str, capture: str) -> None:
    with onnx_native.options(capture=capture):
        program = torch.onnx.export(
            Empty(MAKERS[name]).eval(), (X,), dynamo=True, verify=True, verbose=False
        )
    assert program is not None
    torch.testing.assert_close(program(X)[0], X)
    assert onnx_native.compare(program, X).first is None
