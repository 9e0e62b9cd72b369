"""Loops in programs that write to tensors of the module or to inputs."""

from __future__ import annotations

import copy
from typing import Any

import onnx_native
import pytest
import torch
from models.recording import DYNAMIC, assert_equal_to_eager, assert_native, exported
from torch import Tensor, nn


class Writes(nn.Module):
    """Its `way` is what it does with the results of the steps of a cell."""

    def __init__(self, way: str) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.way = way
        self.cell = nn.GRUCell(4, 4)
        self.linear = nn.Linear(4, 4)
        self.is_scaled = False
        self.register_buffer("last", torch.zeros(1, 4))
        self.register_buffer("count", torch.zeros((), dtype=torch.int64))

    def forward(self, x: Tensor) -> Any:
        before = self.last
        if self.way == "scales weights" and not self.is_scaled:
            with torch.no_grad():
                self.linear.weight.div_(2)
            self.is_scaled = True
        h = torch.zeros(x.shape[0], 4) + self.last
        out = []
        for t in range(x.shape[1]):
            h = self.cell(x[:, t], h)
            if self.way == "counts steps":
                self.count.add_(1)
                h = h + self.count
            if self.way == "writes each step":
                self.last.copy_(h[:1])
            out.append(self.linear(h))
        if self.way == "writes an input":
            x.copy_(torch.stack(out, 1))
        if self.way == "writes the last":
            self.last.mul_(0.5).add_(h[:1])
        if self.way == "replaces a buffer":
            self.last = h[:1].clone()
            return before, self.last
        if self.way == "replaces one by all results":
            self.last = torch.cat(out)
        if self.way == "returns the old value":
            before = self.last.clone()
            self.last.copy_(h[:1])
            return before, self.last
        return torch.stack(out, 1) + self.last[:1]


def example(n: int, batch: int = 2) -> tuple[Tensor]:
    return (torch.randn(batch, n, 4, generator=torch.Generator().manual_seed(n)),)


@pytest.mark.parametrize(
    "way",
    [
        "scales weights",
        "counts steps",
        "writes each step",
        "writes an input",
        "writes the last",
        "replaces a buffer",
        "replaces one by all results",
        "returns the old value",
    ],
)
def test_right_at_every_length(way: str) -> None:
    module = Writes(way).eval()
    program = exported(copy.deepcopy(module), example(4), DYNAMIC)
    assert_native(program)
    assert program.export_report["capture"]["rolled"], program.export_report["capture"]["attempts"]
    assert "is not part of the ONNX model" in program.export_report["warnings"][0]
    for inputs in map(example, (1, 2, 5, 40)):
        assert_equal_to_eager(program, copy.deepcopy(module), inputs)


def test_the_new_value_of_a_buffer_as_state() -> None:
    module = Writes("writes the last").eval()
    with onnx_native.options(state=True):
        program = exported(copy.deepcopy(module), example(4), DYNAMIC)
    for inputs in map(example, (1, 5)):
        eager = copy.deepcopy(module)
        expected = (eager(*inputs), eager.last)
        torch.testing.assert_close(program(*inputs), expected, rtol=1e-4, atol=1e-5)
