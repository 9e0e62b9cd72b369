"""Decoders for providers of ONNX Runtime that do not run here: the CPU provider runs them too."""

import json
import warnings

import onnx_native
import pytest
from decoders import test_decoder

PROVIDERS = {"onnxruntime-cpu": [], "onnxruntime-cuda": [{"cuda": {}}],
             "onnxruntime-webgpu": [{"webgpu": {}}]}  # fmt: skip


@pytest.mark.parametrize("target", PROVIDERS)
@pytest.mark.parametrize("opset", [20, 23])
def test_tokens(target, opset, tmp_path):
    """The kernel of the CUDA provider takes no bias of the scores, as GroupQueryAttention has."""
    model = test_decoder.decoder("Qwen3")
    with warnings.catch_warnings(record=True):
        warnings.simplefilter("always")
        exported = onnx_native.export_decoder(model, tmp_path, opset_version=opset, target=target)
    config = json.loads((tmp_path / "genai_config.json").read_text())
    session = config["model"]["decoder"]["session_options"]
    assert session["provider_options"] == PROVIDERS[target]
    assert config["search"]["past_present_share_buffer"] == (target != "onnxruntime-cuda")
    program = exported.programs["model.onnx"]
    nodes = {node.op_type for node in program.model_proto.graph.node}
    assert ("GroupQueryAttention" in nodes) == (target != "onnxruntime-cuda")
    lacking = {each.partition("\n")[0] for each in program.export_report["missing_kernels"]}
    expected = {"Cast of i64", "Unsqueeze of i64, i64"} if target == "onnxruntime-webgpu" else set()
    if expected and opset == 23:
        expected |= {"Cos of f32", "Sin of f32"}
    assert lacking == expected
    ids, mask = test_decoder.prompts(3)
    results = test_decoder.eager(model, 3, input_ids=ids, attention_mask=mask)
    test_decoder.assert_generates(tmp_path, results, ids, mask)


@pytest.mark.parametrize("target", ["onnxruntime-cuda", "onnxruntime-webgpu"])
def test_caches_of_windows_are_for_the_cpu(target):
    model = test_decoder.decoder("Gemma2")
    with pytest.raises(ValueError, match='target="onnxruntime-cpu"'):
        onnx_native.export_decoder(model, target=target, window_caches=True)
