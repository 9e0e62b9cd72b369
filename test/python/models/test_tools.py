"""The tools around ONNX take the exported models: each runs, and the numbers stay."""

import functools
import pathlib
import tempfile
from collections.abc import Iterator
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from onnxruntime import quantization

from models import running
from models.architectures import ARCHITECTURES

NAMES = ("bert", "llama", "t5", "vit", "swin", "convnext")
every_model = pytest.mark.parametrize("name", NAMES)


@functools.cache
def module(name: str) -> torch.nn.Module:
    return ARCHITECTURES[name].module()


@functools.cache
def expected(name: str, which: int) -> list[torch.Tensor]:
    return running.eager(module(name), ARCHITECTURES[name].example(which))


@functools.cache
def serialized(name: str, opset: int) -> bytes:
    program = ARCHITECTURES[name].export(module(name), opset_version=opset)
    return program.model_proto.SerializeToString()


def exported(name: str, folder: pathlib.Path, opset: int = 20) -> pathlib.Path:
    path = folder / "model.onnx"
    path.write_bytes(serialized(name, opset))
    return path


def assert_numbers_stay(name: str, path: pathlib.Path) -> None:
    session = running.session(path, optimized=False)
    for which in (0, 1):
        running.assert_same(
            running.run(session, ARCHITECTURES[name].example(which)), expected(name, which)
        )


def assert_close(name: str, path: pathlib.Path, error: float) -> None:
    """The error of all elements together, relative to their norm, is small."""
    got = running.run(running.session(path), ARCHITECTURES[name].example(1))
    for one, other in zip(got, expected(name, 1), strict=True):
        assert one.dtype == other.dtype
        assert torch.linalg.norm(one - other) <= error * torch.linalg.norm(other)


def ranks(model: onnx.ModelProto) -> dict[str, int]:
    return {
        value.name: len(value.type.tensor_type.shape.dim)
        for value in (*model.graph.value_info, *model.graph.output)
        if value.type.tensor_type.HasField("shape")
    }


@every_model
def test_symbolic_shape_inference_finds_every_rank(name, tmp_path):
    from onnxruntime.tools.symbolic_shape_infer import SymbolicShapeInference

    model = onnx.load(exported(name, tmp_path, 18))
    stated = ranks(model)
    del model.graph.value_info[:]
    found = ranks(SymbolicShapeInference.infer_shapes(model, auto_merge=True))
    results = {output for node in model.graph.node for output in node.output if output}
    assert {result: found.get(result) for result in results} == {
        result: stated[result] for result in results
    }


@functools.cache
def serialized_for_quantization(name: str) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "prepared.onnx")
        # It merges sizes that it cannot compare, such as min(128, sequence) and sequence.
        quantization.shape_inference.quant_pre_process(
            exported(name, path.parent), path, auto_merge=True
        )
        return path.read_bytes()


def prepared_for_quantization(name: str, folder: pathlib.Path) -> pathlib.Path:
    path = folder / "prepared.onnx"
    path.write_bytes(serialized_for_quantization(name))
    return path


@every_model
def test_quantization_preprocessing(name, tmp_path):
    prepared = prepared_for_quantization(name, tmp_path)
    assert_numbers_stay(name, prepared)


class Calibration(quantization.CalibrationDataReader):
    def __init__(self, name: str) -> None:
        self.batches: Iterator[dict[str, Any]] = iter(
            {key: value.numpy() for key, value in ARCHITECTURES[name].example(which).items()}
            for which in (0, 1)
        )

    def get_next(self) -> dict[str, Any] | None:  # type: ignore[override]
        return next(self.batches, None)


@every_model
def test_static_quantization(name, tmp_path):
    quantized = tmp_path / "quantized.onnx"
    prepared = prepared_for_quantization(name, tmp_path)
    quantization.quantize_static(
        prepared, quantized, Calibration(name), op_types_to_quantize=["Conv", "Gemm", "MatMul"]
    )
    operators = {node.op_type for node in onnx.load(quantized).graph.node}
    assert "QuantizeLinear" in operators
    assert_close(name, quantized, 0.5)  # 8 bits in a small random model; unrelated: 1.4


# The fusions that the optimizer finds in the graph of PyTorch's exporter (2.13).
FUSED = {
    "bert": {"LayerNormalization": 1, "SkipLayerNormalization": 4, "BiasGelu": 2},
    "vit": {"LayerNormalization": 1, "SkipLayerNormalization": 4, "BiasGelu": 2},
}


@every_model
def test_transformers_optimizer(name, tmp_path):
    from onnxruntime.transformers import optimizer

    kind = {"gpt2": "gpt2", "t5": "t5", "vit": "vit", "swin": "swin"}.get(name, "bert")
    optimized = optimizer.optimize_model(
        str(exported(name, tmp_path)), model_type=kind, num_heads=4, hidden_size=32, opt_level=0
    )
    optimized.save_model_to_file(str(tmp_path / "optimized.onnx"))
    fused = optimized.get_fused_operator_statistics()
    assert {kind: fused[kind] for kind in FUSED.get(name, {})} == FUSED.get(name, {})
    assert_numbers_stay(name, tmp_path / "optimized.onnx")


@every_model
def test_version_converter(name, tmp_path):
    model = onnx.load(exported(name, tmp_path, 18))
    converted = tmp_path / "converted.onnx"
    onnx.save(onnx.version_converter.convert_version(model, 20), converted)
    assert onnx.load(converted).opset_import[0].version == 20
    assert_numbers_stay(name, converted)


@every_model
def test_extraction_by_intermediate_names(name, tmp_path):
    path = exported(name, tmp_path)
    model = onnx.load(path)
    inputs = [value.name for value in model.graph.input]
    outputs = [value.name for value in model.graph.output]
    middle = model.graph.node[len(model.graph.node) // 2].output[0]
    part = tmp_path / "part.onnx"
    onnx.utils.extract_model(path, part, inputs, [middle])
    example = ARCHITECTURES[name].example(1)
    session = running.session(part, optimized=False)
    fed = {value.name: example[value.name].numpy() for value in session.get_inputs()}
    (got,) = session.run([middle], fed)
    model.graph.output.append(onnx.helper.make_empty_tensor_value_info(middle))
    whole = onnxruntime.InferenceSession(model.SerializeToString())
    results = whole.run([*outputs, middle], {k: v.numpy() for k, v in example.items()})
    np.testing.assert_allclose(got, results[-1], rtol=1e-4, atol=1e-4)


@every_model
def test_float16_conversion(name, tmp_path):
    from onnxruntime.transformers import float16

    model = onnx.load(exported(name, tmp_path))
    onnx.save(float16.convert_float_to_float16(model, keep_io_types=True), tmp_path / "half.onnx")
    assert_close(name, tmp_path / "half.onnx", 0.02)


@every_model
def test_onnxslim(name, tmp_path):
    import onnxslim

    slim = onnxslim.slim(onnx.load(exported(name, tmp_path)))
    onnx.save(slim, tmp_path / "slim.onnx")
    assert_numbers_stay(name, tmp_path / "slim.onnx")


@every_model
def test_onnxsim(name, tmp_path):
    import onnxsim

    simplified, checked = onnxsim.simplify(onnx.load(exported(name, tmp_path)))
    assert checked
    onnx.save(simplified, tmp_path / "simplified.onnx")
    assert_numbers_stay(name, tmp_path / "simplified.onnx")


@every_model
def test_openvino(name, tmp_path):
    import openvino

    core = openvino.Core()
    settings = {"INFERENCE_NUM_THREADS": 1, "INFERENCE_PRECISION_HINT": "f32"}
    compiled = core.compile_model(core.read_model(exported(name, tmp_path)), "CPU", settings)
    for which in (0, 1):
        example = {k: v.numpy() for k, v in ARCHITECTURES[name].example(which).items()}
        results = compiled(example)
        got = [torch.from_numpy(results[i].copy()) for i in range(len(results))]
        running.assert_same(got, expected(name, which))
