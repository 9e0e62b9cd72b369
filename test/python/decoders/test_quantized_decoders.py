"""Decoders with quantized weights, and with adapters."""

from __future__ import annotations

import pathlib
import sys
from typing import Any

import numpy as np
import onnx
import onnx_native
import onnxruntime as ort
import pytest
import torch
from models import stateful
from onnx import numpy_helper
from passes.test_weight_quantization import dequantized

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "examples"))

import generate

STEPS = 8


def language_model(*, is_tied: bool) -> Any:
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    config = LlamaConfig(
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        vocab_size=96,
        tie_word_embeddings=is_tied,
    )
    return LlamaForCausalLM(config).eval()


def replace_weights(model: Any, path: pathlib.Path) -> None:
    """Gives a module the weights that the file stands for."""
    proto = onnx.load(path)
    constants = {each.name: numpy_helper.to_array(each) for each in proto.graph.initializer}
    for node in proto.graph.node:
        if node.op_type in ("MatMulNBits", "DequantizeLinear"):
            codes = next(name for name in node.input if "_Q" in name)
            name = codes.rpartition("_Q")[0].removesuffix(".T")
            with torch.no_grad():
                model.get_parameter(name).copy_(dequantized(node, constants).T)


@pytest.mark.parametrize("is_tied", [False, True])
@pytest.mark.parametrize("target", ["onnx", "onnxruntime-cpu"])
def test_tokens_are_those_of_the_dequantized_model(
    tmp_path: pathlib.Path, target: Any, is_tied: bool
) -> None:
    model = language_model(is_tied=is_tied)
    # Another target keeps the table of a tied embedding, which eager cannot have beside the head.
    excluded = ("lm_head",) if is_tied and target == "onnx" else ()
    asked = onnx_native.WeightQuantization("int4", embeddings=is_tied, excluded=excluded)
    with onnx_native.options(target=target, quantize_weights=asked):
        onnx_native.export_decoder(model, tmp_path, opset_version=23)
    replace_weights(model, tmp_path / "model.onnx")
    # Of DequantizeLinear, ONNX Runtime's optimizations round activations to 8 bits.
    runtime = generate.Decoder(tmp_path, optimized=target == "onnxruntime-cpu")
    ids, mask = stateful.prompts(3, 5)
    tokens, logits = stateful.eager(model, ids, mask, STEPS)
    got, scores = runtime.generate(ids.numpy(), mask.numpy(), STEPS)
    torch.testing.assert_close(torch.from_numpy(scores), logits, atol=1e-3, rtol=1e-4)
    np.testing.assert_array_equal(got, tokens.numpy())


def test_a_decoder_with_adapters(tmp_path: pathlib.Path) -> None:
    model = language_model(is_tied=False)
    names = "model.layers.*.self_attn.q_proj"
    with onnx_native.options(adapters=(names,)):
        decoder = onnx_native.export_decoder(model, tmp_path, opset_version=23)
    program = decoder.programs["model.onnx"]
    found = program.export_report["adapters"]
    assert found == [f"model.layers.{layer}.self_attn.q_proj.weight" for layer in range(2)]
    onnx_native.save_adapter(program, model.state_dict(), tmp_path / "a.onnx_adapter")
    session = ort.InferenceSession(tmp_path / "model.onnx")
    assert [each.name for each in session.get_overridable_initializers()] == found
