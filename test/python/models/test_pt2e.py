"""Models that torchao's PT2E flow has quantized: static, dynamic, and trained with quantization."""

from __future__ import annotations

import functools
import pathlib
from collections.abc import Callable

import numpy as np
import onnx
import onnxruntime as ort
import pytest
import torch
import torchao.quantization.pt2e as pt2e
from torch import nn
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e, prepare_qat_pt2e
from torchao.quantization.pt2e.quantizer import x86_inductor_quantizer as x86

from models import running


def linear() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 32))


def convolutions() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(
        *(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU()),
        *(nn.Conv2d(8, 8, 3, stride=2, groups=8), nn.ReLU(), nn.Conv2d(8, 4, 1)),
    )


@functools.cache  # PyTorch takes many seconds for it
def quantized(flow: str, make: Callable[[], nn.Module], *sizes: int) -> nn.Module:
    model, is_qat = make(), flow == "qat"
    exported = torch.export.export(model.train(is_qat), (torch.randn(sizes),)).module()
    assert isinstance(exported, torch.fx.GraphModule)
    config = x86.get_default_x86_inductor_quantization_config(
        is_dynamic=flow == "dynamic", is_qat=is_qat
    )
    quantizer = x86.X86InductorQuantizer().set_global(config)
    prepared = (prepare_qat_pt2e if is_qat else prepare_pt2e)(exported, quantizer)
    for _ in range(3):
        prepared(torch.randn(sizes))
    if is_qat:
        pt2e.move_exported_model_to_eval(prepared)
    return convert_pt2e(prepared)  # type: ignore[no-any-return, unused-ignore]


@pytest.mark.filterwarnings("ignore:Exporting a model while it is in training mode")
@pytest.mark.parametrize("opset", [18, 21])
@pytest.mark.parametrize("flow", ["static", "dynamic", "qat"])
def test_equals_eager_with_int8_weights(flow: str, opset: int, tmp_path: pathlib.Path) -> None:
    model, path = quantized(flow, linear, 4, 64), tmp_path / "model.onnx"
    torch.onnx.export(
        model, (torch.randn(4, 64),), f=path, dynamo=True, opset_version=opset, verbose=False
    )
    proto = onnx.load(path)
    onnx.checker.check_model(proto, full_check=True)
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    for scale in (1, 0.1, 10):
        x = torch.randn(4, 64) * scale
        (actual,) = session.run(None, {session.get_inputs()[0].name: x.numpy()})
        expected = model(x).detach().numpy()
        np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-5)
    weights = [one for one in proto.graph.initializer if np.prod(one.dims) >= 32 * 128]
    assert [one.data_type for one in weights] == [onnx.TensorProto.INT8] * 2


@pytest.mark.filterwarnings("ignore:Exporting a model while it is in training mode")
@pytest.mark.parametrize("flow", ["static", "qat"])
def test_convolutions_have_int8_weights(flow: str) -> None:
    model = quantized(flow, convolutions, 2, 3, 16, 16)
    x = torch.randn(2, 3, 16, 16)
    program = torch.onnx.export(model, (x,), dynamo=True, verbose=False)
    assert program is not None
    proto = program.model_proto
    onnx.checker.check_model(proto, full_check=True)
    weights = [one for one in proto.graph.initializer if len(one.dims) == 4]
    assert [one.data_type for one in weights] == [onnx.TensorProto.INT8] * 3
    session = running.session(proto.SerializeToString(), optimized=False)
    (actual,) = session.run(None, {session.get_inputs()[0].name: x.numpy()})
    # A sum in the middle of two steps may be rounded to the other one.
    difference = np.abs(actual - model(x).detach().numpy())
    assert (difference < 1e-5).mean() > 0.95
    assert difference.max() < 0.02
