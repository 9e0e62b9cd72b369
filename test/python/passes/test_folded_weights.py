"""Scales after products and arithmetic with weights are part of the stored weights."""

from __future__ import annotations

import pathlib
from typing import Any

import onnx
import onnx_native
import pytest
import torch
from program.test_weights import WAYS, export, of_source, saved
from torch import nn


class LayerScale(nn.Module):
    """The spellings of CaiT and DINOv2, of ConvNeXt, and of a convolution."""

    def __init__(self, spelling: str) -> None:
        super().__init__()
        self.spelling = spelling
        self.layer = nn.Conv1d(40, 48, 1) if spelling == "conv" else nn.Linear(40, 48)
        gamma = torch.linspace(-2, 3, 48)
        self.gamma = nn.Parameter(gamma[:, None] if spelling == "conv" else gamma)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.spelling == "linear":
            return x + 0.5 * (self.gamma * self.layer(x)).sum(-1, keepdim=True)
        if self.spelling == "channels":
            return self.layer(x).transpose(1, 2) * self.gamma.reshape(1, -1, 1)
        return self.layer(x.transpose(1, 2)) * self.gamma


class Standardized(nn.Module):
    """Like the convolutions of NFNets and of big transfer."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Conv1d(40, 48, 3)
        self.gain = nn.Parameter(torch.linspace(-1, 2, 48).reshape(-1, 1, 1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        weight = self.layer.weight.reshape(1, 48, -1)
        weight = nn.functional.batch_norm(
            weight, None, None, weight=self.gain.view(-1), training=True, momentum=0.0
        )
        weight = weight.reshape_as(self.layer.weight)
        return nn.functional.conv1d(x.transpose(1, 2), weight, self.layer.bias)


class Normalized(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.utils.parametrizations.weight_norm(nn.Linear(40, 48))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.layer(x)
        return result


class Positions(nn.Module):
    """Projects a table of positions, as XCiT does, and a constant row."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Conv1d(4, 40, 1)
        self.row = nn.Linear(3, 40)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        at = torch.arange(4, dtype=x.dtype)
        frequencies = 100 ** (2 * torch.div(at, 2, rounding_mode="floor") / 4)
        positions = (3 / frequencies).sin()[None, :, None]
        return x + self.layer(positions).transpose(1, 2) + self.row(frequencies[:3]) / 8


MODULES: dict[str, tuple[Any, str]] = {
    "linear": (lambda: LayerScale("linear"), "channel_scales"),
    "channels": (lambda: LayerScale("channels"), "channel_scales"),
    "conv": (lambda: LayerScale("conv"), "channel_scales"),
    "standardized": (Standardized, "weight_expressions"),
    "normalized": (Normalized, "weight_expressions"),
    "positions": (Positions, "constants"),
}
every_module = pytest.mark.parametrize("name", MODULES)


def made(name: str, seed: int = 0) -> nn.Module:
    torch.manual_seed(seed)
    module: nn.Module = MODULES[name][0]().eval()
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    return module


def example(*sizes: int) -> torch.Tensor:
    torch.manual_seed(1)
    return torch.randn(*(sizes or (2, 5)), 40)


def operators(program: Any) -> list[str]:
    return [node.op_type for node in program.model_proto.graph.node]


@every_module
@pytest.mark.parametrize("opset", [18, 20, 23])
def test_no_node_computes_weights(name: str, opset: int) -> None:
    module = made(name)
    dynamic = ({0: torch.export.Dim("batch"), 1: torch.export.Dim("length", min=3)},)
    program = export(module, example(), opset_version=opset, dynamic_shapes=dynamic)
    onnx.checker.check_model(program.model_proto, full_check=True)
    assert program.export_report["passes"][MODULES[name][1]] > 0
    assert not {"Mul", "Div", "Sqrt", "Sub", "Pow"} & set(operators(program)) or name == "linear"
    assert operators(program).count("Mul") <= (name == "linear")
    for sizes in ((2, 5), (1, 3), (3, 8)):
        x = example(*sizes)
        torch.testing.assert_close(program(x)[0], module(x), rtol=1e-4, atol=1e-5)


@every_module
@pytest.mark.parametrize("source", ["module", "program", "trace"])
@pytest.mark.parametrize("way", WAYS)
def test_every_source_and_way(name: str, source: str, way: str, tmp_path: pathlib.Path) -> None:
    module, x = made(name), example()
    program = export(of_source(module, source, x), x)
    torch.testing.assert_close(saved(program, tmp_path, way, x), module(x), rtol=1e-4, atol=1e-5)


@every_module
@pytest.mark.parametrize("edited", [False, True])
@pytest.mark.parametrize("way", WAYS)
def test_a_state_dict_applies_as_it_is(
    name: str, edited: bool, way: str, tmp_path: pathlib.Path
) -> None:
    program = export(made(name), x := example())
    if edited:
        from onnx_ir.tensor_adapters import TorchTensor

        for key, value in program.model.graph.initializers.items():
            if key.startswith("layer"):
                value.const_value = TorchTensor(torch.zeros(tuple(value.shape)), key)
    other = made(name, seed=7)
    program.apply_weights(other.state_dict())
    torch.testing.assert_close(saved(program, tmp_path, way, x), other(x), rtol=1e-4, atol=1e-5)


@every_module
def test_weights_change_in_place(name: str, tmp_path: pathlib.Path) -> None:
    module, x = made(name), example()
    program = export(module, x)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.mul_(2).add_(0.1)
    torch.testing.assert_close(saved(program, tmp_path, "save", x), module(x), rtol=1e-4, atol=1e-5)


@every_module
def test_passes_can_be_switched_off(name: str) -> None:
    module, x = made(name), example()
    with onnx_native.options(disabled_passes=["channel_scales", "weight_expressions", "constants"]):
        program = export(module, x)
    assert {"Mul", "Div"} & set(operators(program))
    torch.testing.assert_close(program(x)[0], module(x), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float16, torch.float64])
@every_module
def test_other_dtypes(name: str, dtype: torch.dtype) -> None:
    module, x = made(name).to(dtype), example().to(dtype)
    program = export(module, x)
    tolerance = 2e-2 if dtype == torch.float16 else 1e-8
    torch.testing.assert_close(program(x)[0], module(x), rtol=tolerance, atol=tolerance)


def test_a_transposed_convolution_takes_its_normalization() -> None:
    torch.manual_seed(0)
    module = nn.Sequential(nn.ConvTranspose2d(3, 5, 3, stride=2), nn.BatchNorm2d(5)).eval()
    nn.init.uniform_(module[1].running_mean)
    nn.init.uniform_(module[1].running_var, 0.5, 2)
    x = torch.randn(2, 3, 6, 7)
    program = export(module, x)
    assert operators(program) == ["ConvTranspose"]
    torch.testing.assert_close(program(x)[0], module(x), rtol=1e-4, atol=1e-5)


def test_a_linear_layer_takes_its_normalization() -> None:
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(4, 6, bias=False), nn.BatchNorm1d(6), nn.ReLU()).eval()
    nn.init.uniform_(module[1].running_mean)
    nn.init.uniform_(module[1].bias)
    x = torch.randn(3, 4)
    program = export(module, x)
    assert operators(program) == ["Gemm", "Relu"]
    torch.testing.assert_close(program(x)[0], module(x), rtol=1e-4, atol=1e-5)


class Pyramid(nn.Module):
    """A convolution whose size others use, groups of any size, and enlarged images."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Sequential(nn.Conv2d(3, 8, 3, 2, 1), nn.BatchNorm2d(8))
        self.norm = nn.GroupNorm(4, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        small = self.norm(self.conv(x))
        large = nn.functional.interpolate(small, scale_factor=2.0, mode="nearest")
        even = nn.functional.interpolate(
            small, scale_factor=4.0, mode="bilinear", align_corners=True
        )
        return large.sum((2, 3)) + even.mean((2, 3)) + small.shape[2] * small.shape[3]


@pytest.mark.parametrize("opset", [18, 20, 23])
def test_no_node_computes_sizes_of_a_pyramid(opset: int) -> None:
    torch.manual_seed(0)
    module = Pyramid().eval()
    nn.init.uniform_(module.conv[1].running_mean)
    height, width = torch.export.Dim("height", min=2), torch.export.Dim("width", min=2)
    shapes = ({0: torch.export.Dim("batch"), 2: 2 * height, 3: 2 * width},)
    x = torch.randn(2, 3, 8, 12)
    program = export(module, x, opset_version=opset, dynamic_shapes=shapes)
    onnx.checker.check_model(program.model_proto, full_check=True)
    found = operators(program)
    assert "BatchNormalization" not in found
    assert "Concat" not in found
    for sizes in ((2, 8, 12), (1, 4, 6), (3, 14, 4)):
        x = torch.randn(sizes[0], 3, *sizes[1:])
        torch.testing.assert_close(program(x)[0], module(x), rtol=1e-4, atol=1e-4)
