"""The installed ONNX Runtime has every kernel in the kernel table."""

import pathlib
from types import ModuleType
from typing import Any

import pytest
import torch
from models.loading import loaded

ROOM = pathlib.Path(__file__).parents[3] / "csrc" / "onnx"


@pytest.fixture(scope="module")
def generator() -> ModuleType:
    return loaded(ROOM / "generate_kernels.py")


def test_installed_onnxruntime_has_every_kernel_of_the_table(generator: ModuleType) -> None:
    """If this fails, add the installed version: generate_kernels.py csrc/onnx/kernels.inc --add."""
    table = generator.Table(ROOM / "kernels.inc")
    missing = [
        (op, opset, dtype)
        for op, opset, mask in generator.measure()
        for dtype in generator.DTYPES
        if table.dtypes(op, opset) & ~mask & 1 << dtype
    ]
    assert missing == []


def test_table_has_every_case_and_no_more(generator: ModuleType) -> None:
    table = generator.Table(ROOM / "kernels.inc")
    assert sorted(table.rows) == sorted(generator.CASES)


class Sampled(torch.nn.Module):
    def forward(self, x: torch.Tensor, grid: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.grid_sample(x, grid, align_corners=False)


def test_a_kernel_that_nothing_replaces_is_a_warning() -> None:
    inputs = (torch.rand(1, 1, 4, 4).double(), torch.rand(1, 2, 2, 2).double())
    with pytest.warns(torch.onnx.errors.OnnxExporterWarning, match="GridSample of f64"):
        torch.onnx.export(Sampled(), inputs, dynamo=True, verbose=False)


class Drawn(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return x + torch.rand(2, 3), torch.randn_like(x)


class DrawnLike(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.randn_like(x)


@pytest.mark.parametrize("operator", ["RandomUniform", "RandomNormal"])
def test_generators_without_a_kernel_are_a_warning(operator: str) -> None:
    """ONNX Runtime has no kernels of random operators from opset 22 on."""
    options: dict[str, Any] = {"dynamo": True, "verbose": False, "opset_version": 22}
    with pytest.warns(torch.onnx.errors.OnnxExporterWarning, match=f"{operator} of f32"):
        torch.onnx.export(Drawn(), (torch.rand(2, 3),), **options)


def test_generators_of_a_dynamic_size_are_a_warning() -> None:
    shapes = ({0: torch.export.Dim("n")},)
    options: dict[str, Any] = {
        "dynamo": True,
        "verbose": False,
        "opset_version": 22,
        "dynamic_shapes": shapes,
    }
    with pytest.warns(torch.onnx.errors.OnnxExporterWarning, match="RandomNormalLike of f32"):
        torch.onnx.export(DrawnLike(), (torch.rand(2, 3),), **options)
