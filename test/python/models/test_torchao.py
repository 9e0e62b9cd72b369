"""Models that torchao quantizes keep their weights quantized."""

from __future__ import annotations

import copy
import pathlib
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import onnx_native
import onnxruntime as ort
import pytest
import torch
from torch import nn
from torchao import quantization as ao
from torchao.quantization.granularity import PerAxis, PerGroup
from torchao.quantization.quant_primitives import MappingType

CONFIGS: dict[str, Callable[[], Any]] = {
    "int8": ao.Int8WeightOnlyConfig,
    "intx4-groups": lambda: ao.IntxWeightOnlyConfig(
        weight_dtype=torch.int4, granularity=PerGroup(32)
    ),
    "intx4-rows": lambda: ao.IntxWeightOnlyConfig(weight_dtype=torch.int4, granularity=PerAxis(0)),
    "intx8-groups": lambda: ao.IntxWeightOnlyConfig(
        weight_dtype=torch.int8, granularity=PerGroup(32)
    ),
    "int8-dynamic": ao.Int8DynamicActivationInt8WeightConfig,
    "intx4-dynamic": lambda: ao.Int8DynamicActivationIntxWeightConfig(
        weight_dtype=torch.int4, weight_granularity=PerGroup(32)
    ),
    "float8": ao.Float8WeightOnlyConfig,
}
FLOAT8_AT_20 = ("float8", 20)
BYTES = {
    onnx.TensorProto.UINT8,
    onnx.TensorProto.INT8,
    onnx.TensorProto.FLOAT8E4M3FN,
    onnx.TensorProto.INT4,
}


def quantized(config: str) -> nn.Module:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 32, bias=False)).eval()
    model = copy.deepcopy(model)
    ao.quantize_(model, CONFIGS[config]())
    return model


def run(path: pathlib.Path, x: torch.Tensor, level: Any, optimized: str = "") -> np.ndarray:
    options = ort.SessionOptions()
    options.graph_optimization_level = level
    options.log_severity_level = 3
    if optimized:
        options.optimized_model_filepath = optimized
    session = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    result: np.ndarray = session.run(None, {session.get_inputs()[0].name: x.numpy()})[0]
    return result


@pytest.mark.parametrize(
    ("config", "opset"),
    [
        (config, opset)
        for config in CONFIGS
        for opset in (20, 21)
        if (config, opset) != FLOAT8_AT_20
    ],
)
def test_equals_eager_with_quantized_weights(
    config: str, opset: int, tmp_path: pathlib.Path
) -> None:
    model, x = quantized(config), torch.randn(3, 64)
    before = {name: type(weight) for name, weight in model.named_parameters()}
    path = tmp_path / "model.onnx"
    program = torch.onnx.export(model, (x,), dynamo=True, opset_version=opset, verbose=False)
    assert program is not None
    program.save(path)
    assert {name: type(weight) for name, weight in model.named_parameters()} == before
    proto = onnx.load(path)
    onnx.checker.check_model(proto, full_check=True)
    with torch.no_grad():
        expected = model(x).numpy()
    actual = run(path, x, ort.GraphOptimizationLevel.ORT_DISABLE_ALL)
    np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-5)
    large = [weight for weight in proto.graph.initializer if np.prod(weight.dims) >= 32 * 128]
    assert len(large) == 2
    assert {weight.data_type for weight in large} <= BYTES
    if config.startswith("intx4"):
        is_packed = {weight.data_type for weight in large} == {onnx.TensorProto.INT4}
        assert is_packed == (opset >= 21)


def test_products_of_extreme_bytes_do_not_saturate(tmp_path: pathlib.Path) -> None:
    class Product(nn.Module):
        weight: torch.Tensor

        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("weight", torch.full((64, 1024), 127, dtype=torch.int8))
            self.weight[::2] = -128

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch._int_mm(x, self.weight.t())

    model, x = Product(), torch.full((32, 1024), -128, dtype=torch.int8)
    x[::2] = 127
    program = torch.onnx.export(model, (x,), dynamo=True, opset_version=21, verbose=False)
    assert program is not None
    program.save(tmp_path / "model.onnx")
    for level in (
        ort.GraphOptimizationLevel.ORT_DISABLE_ALL,
        ort.GraphOptimizationLevel.ORT_ENABLE_ALL,
    ):
        actual = run(tmp_path / "model.onnx", x, level)
        np.testing.assert_array_equal(actual, model(x).numpy())
    weights = {weight.name: weight for weight in program.model_proto.graph.initializer}
    assert weights["weight.T"].data_type == onnx.TensorProto.UINT8
    program.apply_weights({"weight": torch.full((64, 1024), -3, dtype=torch.int8)})
    program.save(tmp_path / "other.onnx")
    actual = run(tmp_path / "other.onnx", x, ort.GraphOptimizationLevel.ORT_DISABLE_ALL)
    np.testing.assert_array_equal(actual[0], -3 * 127 * 1024)


def test_float8_matrices_need_opset_21() -> None:
    with pytest.raises(torch.onnx.OnnxExporterError, match="cannot be f8e4m3fn at opset 20"):
        torch.onnx.export(
            quantized("float8"), (torch.randn(3, 64),), dynamo=True, opset_version=20, verbose=False
        )


def test_float8_weights_are_not_dequantized_in_every_run(tmp_path: pathlib.Path) -> None:
    model, x = quantized("float8"), torch.randn(3, 64)
    with onnx_native.options(target="onnxruntime-cpu"):
        program = torch.onnx.export(model, (x,), dynamo=True, opset_version=21, verbose=False)
    assert program is not None
    program.save(tmp_path / "model.onnx")
    optimized = str(tmp_path / "optimized.onnx")
    actual = run(tmp_path / "model.onnx", x, ort.GraphOptimizationLevel.ORT_ENABLE_ALL, optimized)
    np.testing.assert_allclose(actual, model(x).detach().numpy(), rtol=1e-5, atol=1e-5)
    operators = {node.op_type for node in onnx.load(optimized).graph.node}
    assert operators <= {"MatMul", "Gemm", "FusedGemm", "FusedMatMul", "Add", "Relu"}


class Mlp(nn.Module):
    """Layers with and without bias and activation."""

    def __init__(self) -> None:
        super().__init__()
        self.wide = nn.Linear(64, 128)
        self.middle = nn.Linear(128, 96, bias=False)
        self.narrow = nn.Linear(96, 32)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.narrow(nn.functional.gelu(self.middle(torch.relu(self.wide(x)))))


@pytest.mark.parametrize("external", [False, True])
@pytest.mark.parametrize("mapping", [MappingType.SYMMETRIC, MappingType.ASYMMETRIC])
@pytest.mark.parametrize("bits", [2, 3, 4])
def test_four_bits(bits: int, mapping: MappingType, external: bool, tmp_path: pathlib.Path) -> None:
    """Weights of 4 bits and less take half a byte, in a layout that ONNX Runtime fuses."""
    torch.manual_seed(0)
    model, x = Mlp().eval(), torch.randn(2, 5, 64)
    dtype = getattr(torch, f"int{bits}")
    ao.quantize_(
        model,
        ao.IntxWeightOnlyConfig(weight_dtype=dtype, granularity=PerGroup(32), mapping_type=mapping),
    )
    program = torch.onnx.export(
        model,
        (x,),
        dynamo=True,
        opset_version=21,
        verbose=False,
        dynamic_shapes=({0: "batch", 1: "length"},),
    )
    assert program is not None
    path, optimized = tmp_path / "model.onnx", tmp_path / "optimized.onnx"
    program.save(path, external_data=external)
    onnx.checker.check_model(path, full_check=True)
    for size in ((2, 5, 64), (1, 1, 64)):
        x = torch.randn(size)
        actual = run(path, x, ort.GraphOptimizationLevel.ORT_DISABLE_ALL)
        np.testing.assert_allclose(actual, model(x).detach().numpy(), rtol=1e-5, atol=1e-5)
    weights = [layer.weight.numel() for layer in (model.wide, model.middle, model.narrow)]
    packed = {
        int(np.prod(weight.dims)): weight
        for weight in onnx.load(path).graph.initializer
        if weight.data_type == onnx.TensorProto.INT4 and np.prod(weight.dims) in weights
    }
    assert sorted(packed) == sorted(weights)
    for count, weight in packed.items():
        assert len(weight.raw_data) == count // 2
    run(path, x, ort.GraphOptimizationLevel.ORT_ENABLE_ALL, str(optimized))
    operators = [node.op_type for node in onnx.load(optimized).graph.node]
    assert operators.count("MatMulNBits") == 3
    assert "DequantizeLinear" not in operators


def test_weights_of_four_bits_change_with_the_module(tmp_path: pathlib.Path) -> None:
    """They are packed when they are written, from the module's memory."""
    torch.manual_seed(0)
    model, x = nn.Sequential(nn.Linear(64, 48)).eval(), torch.randn(3, 64)
    ao.quantize_(model, ao.IntxWeightOnlyConfig(weight_dtype=torch.int4, granularity=PerGroup(32)))
    program = torch.onnx.export(model, (x,), dynamo=True, opset_version=21, verbose=False)
    assert program is not None
    with torch.no_grad():
        model[0].weight.qdata.neg_().clamp_(-8, 7)
    program.save(tmp_path / "model.onnx")
    actual = run(tmp_path / "model.onnx", x, ort.GraphOptimizationLevel.ORT_DISABLE_ALL)
    np.testing.assert_allclose(actual, model(x).detach().numpy(), rtol=1e-5, atol=1e-5)
    with torch.no_grad():
        model[0].weight.qdata.fill_(100)
    with pytest.raises(Exception, match="export again"):
        program.save(tmp_path / "wrong.onnx")
    assert not (tmp_path / "wrong.onnx").exists()


def test_runtime_multiplies_by_the_quantized_weight(tmp_path: pathlib.Path) -> None:
    torch.manual_seed(0)
    model, x = nn.Linear(256, 128, bias=False).eval(), torch.randn(1, 256)
    ao.quantize_(model, ao.Int8WeightOnlyConfig())
    program = torch.onnx.export(model, (x,), dynamo=True, opset_version=21, verbose=False)
    assert program is not None
    program.save(tmp_path / "model.onnx")
    optimized = str(tmp_path / "optimized.onnx")
    run(tmp_path / "model.onnx", x, ort.GraphOptimizationLevel.ORT_ENABLE_ALL, optimized)
    assert [node.op_type for node in onnx.load(optimized).graph.node] == ["MatMulNBits"]


@pytest.mark.parametrize("config", sorted(CONFIGS))
def test_exported_programs_keep_their_weights(config: str, tmp_path: pathlib.Path) -> None:
    """torch.export keeps tensor subclasses, and reads their parts where the program uses them."""
    model, x = quantized(config), torch.randn(3, 64)
    captured = torch.export.export(model, (x,))
    program = torch.onnx.export(captured, (), dynamo=True, opset_version=21, verbose=False)
    assert program is not None
    path = tmp_path / "model.onnx"
    program.save(path)
    proto = onnx.load(path)
    onnx.checker.check_model(proto, full_check=True)
    actual = run(path, x, ort.GraphOptimizationLevel.ORT_DISABLE_ALL)
    np.testing.assert_allclose(actual, model(x).detach().numpy(), rtol=1e-5, atol=1e-5)
    large = [weight for weight in proto.graph.initializer if np.prod(weight.dims) >= 32 * 128]
    assert len(large) == 2
    assert {weight.data_type for weight in large} <= BYTES
