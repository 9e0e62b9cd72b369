"""Of two captures, the one that keeps more of the user's sizes dynamic is the model."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from models.recording import assert_equal_to_eager
from torch import nn

SHAPES: Any = ({0: torch.export.Dim.AUTO},)


class Labels(nn.Module):
    """Makes a text of a size. The native capture needs its number, and torch.export does not."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        label = f"{x.shape[0]} rows"
        return x * len(label.split())


class Demands(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.shape[0] != 4:
            raise ValueError("needs four rows")
        return x * 2


def exported(module: nn.Module) -> Any:
    example = (torch.randn(4, 3),)
    return torch.onnx.export(
        module.eval(), example, dynamic_shapes=SHAPES, dynamo=True, verbose=False
    )


def test_torch_export_keeps_a_size_that_the_native_capture_fixes() -> None:
    program = exported(Labels())
    capture = program.export_report["capture"]
    assert capture["by"] == "torch.export"
    assert [each["route"] for each in capture["attempts"]] == ["native", "torch.export"]
    assert "which torch.export keeps" in capture["attempts"][0]["reason"]
    assert_equal_to_eager(program, Labels(), (torch.randn(4, 3),), (torch.randn(7, 3),))


def test_both_fix_a_size() -> None:
    with pytest.warns(torch.onnx.errors.OnnxExporterWarning, match="s0 == 4"):
        program = exported(Demands())
    capture = program.export_report["capture"]
    assert capture["by"] == "native"
    assert capture["attempts"][-1]["route"] == "torch.export"
    assert capture["attempts"][-1]["reason"] is not None
    assert_equal_to_eager(program, Demands(), (torch.randn(4, 3),))
