"""ONNX Runtime's quantizers find every product with a weight."""

from __future__ import annotations

import logging
import pathlib
from collections.abc import Iterator
from typing import Any

import onnx
import onnx_native
import pytest
import torch
from onnxruntime import quantization
from onnxruntime.quantization.matmul_nbits_quantizer import MatMulNBitsQuantizer

from models import running
from models.architectures import ARCHITECTURES

# Encoders, decoders with a head of their own, with experts and with a tied head, images.
MODELS = ["bert", "roberta", "llama", "mixtral", "gpt2", "t5", "vit", "swin"]


class Exported:
    """A model in a file, and what its quantized forms are compared with."""

    def __init__(self, name: str, folder: pathlib.Path) -> None:
        model = ARCHITECTURES[name]
        module = model.module()
        self.path = folder / f"{name}.onnx"
        model.export(module, f=self.path, opset_version=20)
        self.inputs = model.example(1)
        self.expected = running.eager(module, self.inputs)
        self.graph = onnx.load(self.path).graph
        self.initializers = {one.name: one for one in self.graph.initializer}

    def products(self, *op_types: str) -> list[onnx.NodeProto]:
        """The products with a matrix of weights."""
        return [
            node
            for node in self.graph.node
            if node.op_type in op_types
            and node.input[1] in self.initializers
            and len(self.initializers[node.input[1]].dims) == 2
        ]

    def check(self, path: pathlib.Path) -> None:
        """Quantized, the model computes nearly the same."""
        session = running.session(path)
        got = running.run(session, self.inputs)
        for one, other in zip(got, self.expected, strict=True):
            assert one.shape == other.shape
            assert (one - other).norm() < 0.25 * other.norm()


@pytest.fixture(scope="module", params=MODELS)
def exported(request: Any, tmp_path_factory: Any) -> Exported:
    return Exported(request.param, tmp_path_factory.mktemp(request.param))


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    logging.disable(logging.WARNING)
    yield
    logging.disable(logging.NOTSET)


def test_no_weight_of_a_product_is_transposed_at_run_time(exported: Exported) -> None:
    transposed = {
        node.input[0] for node in exported.graph.node if node.op_type == "Transpose"
    } & set(exported.initializers)
    assert not transposed
    assert exported.products("MatMul")


def test_quantize_dynamic(exported: Exported, tmp_path: pathlib.Path) -> None:
    path = tmp_path / "dynamic.onnx"
    quantization.quantize_dynamic(exported.path, path, op_types_to_quantize=["MatMul", "Gemm"])
    graph = onnx.load(path).graph
    quantized = [node for node in graph.node if node.op_type == "MatMulInteger"]
    assert len(quantized) == len(exported.products("MatMul", "Gemm"))
    exported.check(path)


def test_quantize_weights_to_few_bits(exported: Exported, tmp_path: pathlib.Path) -> None:
    quantizer = MatMulNBitsQuantizer(onnx.load(exported.path), block_size=16, bits=8)
    quantizer.process()
    quantized = [n for n in quantizer.model.model.graph.node if n.op_type == "MatMulNBits"]
    assert len(quantized) == len(exported.products("MatMul"))
    path = tmp_path / "few_bits.onnx"
    onnx.save(quantizer.model.model, path)
    exported.check(path)


class Calibration(quantization.CalibrationDataReader):
    def __init__(self, inputs: dict[str, torch.Tensor]) -> None:
        self._inputs = iter([{name: value.numpy() for name, value in inputs.items()}])

    def get_next(self) -> Any:
        return next(self._inputs, None)


def test_quantize_static(exported: Exported, tmp_path: pathlib.Path) -> None:
    path = tmp_path / "static.onnx"
    quantization.quantize_static(
        exported.path,
        path,
        Calibration(exported.inputs),
        op_types_to_quantize=["MatMul", "Gemm"],
    )
    graph = onnx.load(path).graph
    constants = {one.name for one in graph.initializer}
    weights = {
        node.output[0]
        for node in graph.node
        if node.op_type == "DequantizeLinear" and node.input[0] in constants
    }
    quantized = [n for n in graph.node if n.op_type in ("MatMul", "Gemm") and n.input[1] in weights]
    assert len(quantized) == len(exported.products("MatMul", "Gemm"))
    exported.check(path)


def test_the_tied_head_of_gpt2_is_a_product_with_a_weight(tmp_path: pathlib.Path) -> None:
    model = Exported("gpt2", tmp_path)
    assert "transformer.wte.weight.T" in {node.input[1] for node in model.products("MatMul")}


@pytest.mark.parametrize("name", MODELS)
def test_weights_quantized_at_export_are_those_of_the_quantizer(
    name: str, tmp_path: pathlib.Path
) -> None:
    model = ARCHITECTURES[name]
    module = model.module()
    plain, path = tmp_path / "plain.onnx", tmp_path / "m.onnx"
    with onnx_native.options(target="onnxruntime-cpu"):
        model.export(module, f=plain)
    asked = onnx_native.WeightQuantization("int8", block_size=16, symmetric=False)
    with onnx_native.options(target="onnxruntime-cpu", quantize_weights=asked):
        program = model.export(module, f=path)
    quantizer = MatMulNBitsQuantizer(onnx.load(plain), block_size=16, bits=8)
    quantizer.process()

    def quantized(graph: onnx.GraphProto) -> list[tuple[bytes, ...]]:
        constants = {one.name: onnx.numpy_helper.to_array(one) for one in graph.initializer}
        return [
            tuple(constants[each].tobytes() for each in node.input[1:])
            for node in graph.node
            if node.op_type == "MatMulNBits"
        ]

    ours = quantized(onnx.load(path).graph)
    theirs = quantized(quantizer.model.model.graph)
    assert theirs
    assert not set(theirs) - set(ours)
    assert len(ours) >= len(theirs)
    assert program.export_report["quantized_weights"]
    inputs = model.example(1)
    got = running.run(running.session(path), inputs)
    for one, other in zip(got, running.eager(module, inputs), strict=True):
        assert one.shape == other.shape
        assert (one - other).norm() < 0.25 * other.norm()
