"""Weights that are quantized at export: equal to ONNX Runtime's quantizer, bit for bit."""

import itertools
import logging
import pathlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import onnx
import onnx_native
import onnxruntime
import pytest
import torch
from onnx import numpy_helper
from onnxruntime.quantization.matmul_nbits_quantizer import (
    DefaultWeightOnlyQuantConfig,
    MatMulNBitsQuantizer,
)
from onnxruntime.quantization.quant_utils import QuantFormat

TYPES = {"MatMulNBits", "DequantizeLinear"}
LEVELS = (
    onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL,
    onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL,
)


class Layers(torch.nn.Module):
    """Products with transposed and other weights, and rows that end within a block."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first = torch.nn.Linear(100, 56)
        self.second = torch.nn.Linear(56, 34, bias=False)
        self.last = torch.nn.Parameter(torch.randn(34, 20))
        # Ties, equal elements, and no element but zero.
        with torch.no_grad():
            self.first.weight[1] = (self.first.weight[1] * 20).round() / 4
            self.first.weight[2] = 0
            self.first.weight[3] = self.first.weight[3].abs()
            self.second.weight[0, :16] = 0.25

    def forward(self, x):
        return torch.relu(self.second(torch.relu(self.first(x)))) @ self.last


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    logging.disable(logging.WARNING)
    yield
    logging.disable(logging.NOTSET)


def export(module: Any, path: pathlib.Path, x: torch.Tensor, opset: int = 21, **options: Any):
    with onnx_native.options(**options):
        return torch.onnx.export(
            module.eval(), (x,), path, dynamo=True, verbose=False, opset_version=opset
        )


def runs(path: pathlib.Path, x: torch.Tensor) -> list[torch.Tensor]:
    """What ONNX Runtime computes without and with its optimizations."""
    results = []
    for level in LEVELS:
        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = level
        options.add_session_config_entry("session.qdq_matmulnbits_accuracy_level", "0")
        session = onnxruntime.InferenceSession(path, options)
        name = session.get_inputs()[0].name
        results.append(torch.from_numpy(session.run(None, {name: x.numpy()})[0]))
    return results


def quantized(model: onnx.ModelProto) -> list[list[onnx.TensorProto]]:
    """The initializers of each quantized weight."""
    constants = {each.name: each for each in model.graph.initializer}
    return [
        [constants[name] for name in node.input if name in constants]
        for node in model.graph.node
        if node.op_type in TYPES
    ]


def dequantized(node: onnx.NodeProto, constants: dict[str, np.ndarray]) -> torch.Tensor:
    """The matrix [K, N] that a node stands for."""
    inputs = [constants[name] for name in node.input if name in constants]
    numbers = {each.name: each for each in node.attribute}
    size = numbers["block_size"].i
    if node.op_type == "DequantizeLinear":
        codes = inputs[0].astype(np.float32)
        zeros = inputs[2].astype(np.float32) if len(inputs) > 2 else 0 * inputs[1]
        scales, zeros = (np.repeat(each, size, 0)[: len(codes)] for each in (inputs[1], zeros))
        return torch.from_numpy((codes - zeros) * scales.astype(np.float32))
    bits, rows = numbers["bits"].i, numbers["K"].i

    def unpacked(packed: np.ndarray) -> np.ndarray:
        flat = packed.reshape(len(packed), -1)
        pairs = np.stack([flat & 15, flat >> 4], -1) if bits == 4 else flat
        return pairs.reshape(len(flat), -1).astype(np.float32)

    codes, scales = unpacked(inputs[0]), inputs[1].astype(np.float32)
    zeros = np.full_like(scales, 1 << (bits - 1))
    if len(inputs) > 2:
        zeros = unpacked(inputs[2])[:, : scales.shape[1]]
    values = (codes - np.repeat(zeros, size, 1)) * np.repeat(scales, size, 1)
    return torch.from_numpy(values[:, :rows].T.copy())


def dequantized_weights(path: pathlib.Path) -> list[torch.Tensor]:
    model = onnx.load(path)
    constants = {each.name: numpy_helper.to_array(each) for each in model.graph.initializer}
    return [dequantized(node, constants) for node in model.graph.node if node.op_type in TYPES]


@pytest.mark.parametrize("precision", ["program", "float16"])
@pytest.mark.parametrize(
    ("target", "dtype"),
    [("onnxruntime-cpu", "int4"), ("onnxruntime-cpu", "int8"), ("onnx", "int4")],
)
def test_equal_to_onnx_runtimes_quantizer(tmp_path, precision, target, dtype):
    module, x = Layers(), torch.randn(2, 5, 100)
    plain, path = tmp_path / "plain.onnx", tmp_path / "m.onnx"
    export(module, plain, x, target=target, precision=precision)
    for size, symmetric in itertools.product((16, 32, 128), (True, False)):
        settings = onnx_native.WeightQuantization(dtype, block_size=size, symmetric=symmetric)
        export(module, path, x, target=target, precision=precision, quantize_weights=settings)
        quantizer = MatMulNBitsQuantizer(
            onnx.load(plain),
            algo_config=DefaultWeightOnlyQuantConfig(
                block_size=size,
                is_symmetric=symmetric,
                bits=int(dtype[3:]),
                quant_format=QuantFormat.QDQ if target == "onnx" else QuantFormat.QOperator,
            ),
        )
        quantizer.process()
        expected = quantized(quantizer.model.model)
        assert len(expected) == 3
        for ours, theirs in zip(quantized(onnx.load(path)), expected, strict=True):
            for one, other in zip(ours, theirs, strict=True):
                assert (one.data_type, one.dims) == (other.data_type, other.dims)
                elements = [numpy_helper.to_array(each).tobytes() for each in (one, other)]
                assert elements[0] == elements[1]


@pytest.mark.parametrize("symmetric", [True, False])
@pytest.mark.parametrize("dtype", ["int4", "int8"])
@pytest.mark.parametrize("target", ["onnxruntime-cpu", "onnx"])
def test_the_model_computes_what_eager_does_with_the_dequantized_weights(
    tmp_path, target, dtype, symmetric
):
    module, x, path = Layers(), torch.randn(2, 5, 100), tmp_path / "m.onnx"
    settings = onnx_native.WeightQuantization(dtype, symmetric=symmetric)
    program = export(module, path, x, target=target, quantize_weights=settings)
    onnx.checker.check_model(str(path), full_check=True)
    assert set(program.export_report["quantized_weights"]) == {
        "first.weight",
        "second.weight",
        "last",
    }
    assert not program.export_report["unquantized_weights"]
    first, second, last = dequantized_weights(path)
    error = 0.15 if dtype == "int4" else 0.01
    for got, weight in zip(
        (first, second, last),
        (module.first.weight.T, module.second.weight.T, module.last),
        strict=True,
    ):
        assert (got - weight).norm() < error * weight.norm()
    with torch.no_grad():
        module.first.weight.copy_(first.T)
        module.second.weight.copy_(second.T)
        module.last.copy_(last)
    for got in runs(path, x):
        torch.testing.assert_close(got, module(x).detach(), rtol=1e-4, atol=1e-4)


@pytest.mark.filterwarnings("ignore:ONNX Runtime's CPU provider has no kernel")
def test_bfloat16_weights_are_quantized_in_float32(tmp_path):
    module, x, path = Layers(), torch.randn(2, 5, 100), tmp_path / "m.onnx"
    export(module, path, x, opset=22, precision="bfloat16", quantize_weights="int4")
    got = [numpy_helper.to_array(one[1]) for one in quantized(onnx.load(path))]
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(parameter.bfloat16())
    export(module, path, x, quantize_weights="int4")
    rounded = quantized(onnx.load(path))
    for scales, (_, expected) in zip(got, rounded, strict=True):
        expected = torch.from_numpy(numpy_helper.to_array(expected).copy()).bfloat16()
        assert torch.equal(torch.from_numpy(scales.astype(np.float32)), expected.float())
