"""Modules that torch.jit.freeze and torch.jit.optimize_for_inference rewrote."""

from collections.abc import Callable
from typing import Any

import onnx
import pytest
import torch
from models.running import assert_same
from torch import Tensor, nn
from torch.nn import functional
from torch.utils import _pytree as pytree


class Network(nn.Module):
    """Convolutions, and operators that have a form of their own in oneDNN's layout."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 8, 3)
        self.norm = nn.BatchNorm2d(8)
        self.grouped = nn.Conv2d(8, 8, 3, groups=2, stride=2, padding=1)
        self.spread = nn.Conv2d(8, 8, 3, dilation=2, padding=2, bias=False)
        self.transposed = nn.ConvTranspose2d(8, 8, 2)
        self.features = nn.LayerNorm(8)
        self.linear = nn.Linear(8, 4)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        x = functional.relu6(self.norm(self.first(x)))
        x = functional.hardswish(self.grouped(x))
        y = functional.hardsigmoid(self.spread(x))
        x = functional.hardtanh(self.grouped(x + y * 2.0), -0.5, 0.7)
        x = functional.max_pool2d(self.transposed(x), 2).clamp(0.1, 0.6)
        x = functional.adaptive_avg_pool2d(x, 1).flatten(1)
        x = self.linear(self.features(x))
        return torch.sigmoid(x), torch.tanh(x) * x


class Volume(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.convolution = nn.Conv3d(2, 4, 3, padding=1)
        self.bias = nn.Parameter(torch.randn(1, 4, 1, 1, 1))

    def forward(self, x: Tensor) -> Tensor:
        return self.convolution(x).relu() + self.bias


Compiler = Callable[[nn.Module, Tensor], Any]
COMPILERS: dict[str, Compiler] = {
    "script": lambda module, _: torch.jit.script(module),
    "trace": torch.jit.trace,
}


@torch.no_grad()
@pytest.mark.parametrize("compiler", COMPILERS)
@pytest.mark.parametrize("optimize", [torch.jit.freeze, torch.jit.optimize_for_inference])
@pytest.mark.parametrize("of", [Network, Volume])
def test_optimized(of: type[nn.Module], optimize: Callable[[Any], Any], compiler: str):
    inputs = [torch.randn(n, *((3, 16, 16) if of is Network else (2, 4, 5, 6))) for n in (2, 3)]
    module = of().eval()
    optimized = optimize(COMPILERS[compiler](module, inputs[0]))
    program = torch.onnx.export(
        optimized, (inputs[0],), dynamo=True, verbose=False, dynamic_shapes=[{0: "batch"}]
    )
    assert program is not None
    onnx.checker.check_model(program.model_proto, full_check=True)
    # Not with the optimized module: PyTorch 2.13 rewrites Network to one with other results.
    for x in inputs:
        assert_same(program(x), pytree.tree_leaves(module(x)))
