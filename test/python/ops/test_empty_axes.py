"""Running results of axes that are empty at run time, where ONNX Runtime fails to scan."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import onnx_native
import pytest
import torch

FUNCTIONS: dict[str, Callable[[torch.Tensor, int], Any]] = {
    "cummax": torch.cummax,
    "cummin": torch.cummin,
    "cumprod": torch.cumprod,
    "logcumsumexp": torch.logcumsumexp,
}


class Along(torch.nn.Module):
    """A function along a dimension."""

    def __init__(self, name: str, dim: int) -> None:
        super().__init__()
        self.function, self.dim = FUNCTIONS[name], dim

    def forward(self, x: torch.Tensor) -> Any:
        return self.function(x, self.dim)


SIZES = ((0, 3), (2, 0), (0, 0), (5, 1))


@pytest.mark.parametrize("capture", ["native", "torch.export"])
@pytest.mark.parametrize("dim", [0, 1])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_running_results(name: str, dim: int, capture: str) -> None:
    function = Along(name, dim).eval()
    shapes = {0: "n", 1: "m"}
    with onnx_native.options(capture=capture):
        program = torch.onnx.export(
            function, (torch.randn(2, 3),), dynamo=True, verbose=False, dynamic_shapes=(shapes,)
        )
    assert program is not None
    for size in SIZES:
        x = torch.randn(size)
        expected = torch.utils._pytree.tree_leaves(function(x))
        torch.testing.assert_close(list(program(x)), expected)
