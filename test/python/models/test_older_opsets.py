"""Exports at older opsets are no worse than those that onnx.version_converter converts to them."""

import onnx
import onnx.version_converter
import onnxruntime
import pytest
import torch
from torch import nn

from models import routes, running
from models.architectures import ARCHITECTURES

# The converter refuses most other models, at Gelu, Split or LayerNormalization.
# benchmarks/older_opsets.py compares them all.
CONVERTED = ("clip", "opt", "t5", "timm_mobilenetv3", "timm_nf_resnet", "timm_regnety")
REFUSED = ("bert", "gemma2", "gpt2", "mixtral", "swin", "wav2vec2")


def assert_right(name: str, module: nn.Module, model: onnx.ModelProto) -> None:
    onnx.checker.check_model(model, full_check=True)
    for optimized in (False, True):
        session = running.session(model.SerializeToString(), optimized=optimized)
        for which in (0, 1):
            inputs = ARCHITECTURES[name].example(which)
            running.assert_same(running.run(session, inputs), running.eager(module, inputs))


@pytest.mark.parametrize("name", CONVERTED)
def test_no_more_nodes_than_the_converter(name):
    module = ARCHITECTURES[name].module()
    newer, ours = (
        ARCHITECTURES[name].export(module, opset_version=opset).model_proto for opset in (18, 17)
    )
    assert_right(name, module, ours)
    converted = onnx.version_converter.convert_version(newer, 17)
    assert len(ours.graph.node) <= len(converted.graph.node)


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.parametrize("opset", [13, 17])
def test_right_where_the_converter_refuses(name, opset):
    module = ARCHITECTURES[name].module()
    model = ARCHITECTURES[name].export(module, opset_version=20).model_proto
    with pytest.raises(RuntimeError, match=r"No (Previous Version|Adapter)"):
        onnx.version_converter.convert_version(model, opset)
    ours = ARCHITECTURES[name].export(module, opset_version=opset).model_proto
    assert_right(name, module, ours)


class FeedForward(nn.Module):
    def __init__(self, approximate: str, *, has_bias: bool) -> None:
        super().__init__()
        self.first = nn.Linear(8, 16, bias=has_bias)
        self.gelu = nn.GELU(approximate)
        self.second = nn.Linear(16, 8, bias=has_bias)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(self.gelu(self.first(x)))


@pytest.mark.parametrize("opset", [13, 17, 20])
@pytest.mark.parametrize("has_bias", [True, False])
@pytest.mark.parametrize("approximate", ["none", "tanh"])
def test_onnxruntime_fuses_gelu(approximate, has_bias, opset, tmp_path):
    x = torch.randn(2, 3, 8)
    module = FeedForward(approximate, has_bias=has_bias).eval()
    model = routes.check(module, (x,), "native", opset=opset)
    options = onnxruntime.SessionOptions()
    options.optimized_model_filepath = str(tmp_path / "optimized.onnx")
    options.log_severity_level = 3
    onnxruntime.InferenceSession(model.SerializeToString(), options)
    found = {node.op_type for node in onnx.load(tmp_path / "optimized.onnx").graph.node}
    assert found & {"Gelu", "BiasGelu", "FastGelu"}
    assert not found & {"Erf", "Tanh"}
