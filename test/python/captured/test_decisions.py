"""Decisions on sizes in programs that torch.export captures: each is a guard in the report."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import onnx_native
import pytest
import torch
from torch import nn


class Decides(nn.Module):
    """Operations on bits of sizes go to torch.export."""

    def __init__(self, decide: Callable[[Any], Any]) -> None:
        super().__init__()
        self.decide = decide

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        n = x.shape[0]
        factor = 2 if self.decide(n) else 3
        return x * ((n & 3) | 4) * factor


@pytest.mark.parametrize(
    ("decide", "guard"),
    [
        (lambda n: n == 16, "n != 16"),
        (lambda n: n != 16, "n != 16"),
        (lambda n: n % 4 == 1, "n % 4 != 1"),
        (lambda n: n * n == 100, "n**2 != 100"),
        (lambda n: n > 512, "n <= 512"),
        (lambda n: True, None),
    ],
)
def test_the_other_way_of_a_decision_is_a_guard(
    decide: Callable[[Any], Any], guard: str | None
) -> None:
    module = Decides(decide)
    program = torch.onnx.export(
        module, (torch.ones(6),), dynamo=True, verbose=False, dynamic_shapes=({0: "n"},)
    )
    capture = program.export_report["capture"]
    assert capture["by"] == "torch.export"
    assert [each["condition"] for each in capture["guards"]] == ([] if guard is None else [guard])
    for n in (3, 4, 7, 8):
        torch.testing.assert_close(program(torch.ones(n))[0], module(torch.ones(n)))


class IsOneOf(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * (2 if x.shape[0] in [1, 2, 3] else 3)


@onnx_native.options(branches="example")
def test_a_choice_of_several_sizes_is_a_guard() -> None:
    program = torch.onnx.export(
        IsOneOf(), (torch.ones(3),), dynamo=True, verbose=False, dynamic_shapes=({0: "n"},)
    )
    guards = [each["condition"] for each in program.export_report["capture"]["guards"]]
    assert guards == ["n == 1 or n == 2 or n == 3"]
