"""Models from PyTorch's quantization flows, exported and compared with eager."""

import copy
from collections.abc import Callable

import onnxruntime
import pytest
import torch
from torch import nn
from torch.ao import quantization
from torch.ao.quantization import quantize_fx

X = torch.randn(2, 3, 8, 8, generator=torch.Generator().manual_seed(0))


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.Conv2d(8, 8, 3, stride=2, groups=2),
        nn.Hardswish(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(8, 4),
    )


def decomposed(backend: str) -> nn.Module:
    """Post-training quantization: quantize and dequantize around each operator."""
    mapping = quantization.get_default_qconfig_mapping(backend)
    prepared = quantize_fx.prepare_fx(network().eval(), mapping, (X,))
    prepared(X)
    return quantize_fx._convert_to_reference_decomposed_fx(prepared)


def trained() -> nn.Module:
    """Quantization-aware training: fake quantization with observers off."""
    mapping = quantization.get_default_qat_qconfig_mapping("x86")
    prepared = quantize_fx.prepare_qat_fx(network().train(), mapping, (X,))
    prepared(X)
    prepared.eval()
    return prepared.apply(quantization.disable_observer)


def observing() -> nn.Module:
    """The same with observers on, which update their range at each call."""
    return trained().apply(quantization.enable_observer)


def export(module: nn.Module) -> torch.onnx.ONNXProgram:
    program = torch.onnx.export(
        module,
        (X,),
        dynamo=True,
        dynamic_shapes=({0: torch.export.Dim("batch")},),
        verbose=False,
    )
    assert program is not None
    return program


@pytest.mark.parametrize(
    "build",
    [lambda: decomposed("x86"), lambda: decomposed("qnnpack"), trained, observing],
    ids=["per channel", "per tensor", "trained", "observing"],
)
@torch.no_grad()
def test_model(build: Callable[[], nn.Module]) -> None:
    module = build()
    program = export(copy.deepcopy(module))
    kinds = {node.op_type for node in program.model_proto.graph.node}
    assert {"QuantizeLinear", "DequantizeLinear"} <= kinds
    running = onnxruntime.InferenceSession(program.model_proto.SerializeToString())
    for images in (X, torch.cat([X, X.flip(3)])):
        (result,) = running.run(None, {running.get_inputs()[0].name: images.numpy()})
        # Halves may round the other way: the difference is at most one step of the last scale.
        expected = copy.deepcopy(module)(images)
        step = expected.abs().max() / 32
        torch.testing.assert_close(torch.from_numpy(result), expected, atol=float(step), rtol=0)


def test_operators_on_quantized_tensors_round() -> None:
    """Eager pools the integers, and rounds the mean."""
    quantized = nn.Sequential(
        torch.ao.nn.quantized.Quantize(torch.tensor(1.0), torch.tensor(0), torch.quint8),
        nn.AvgPool2d(3, 2, 1),
        torch.ao.nn.quantized.DeQuantize(),
    )
    x = torch.arange(96.0).view(4, 4, 3, 2)
    program = torch.onnx.export(quantized.eval(), (x,), dynamo=True, verbose=False)
    assert program is not None
    torch.testing.assert_close(program(x)[0], quantized(x), rtol=0, atol=0)
