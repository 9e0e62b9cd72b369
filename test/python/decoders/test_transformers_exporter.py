"""transformers' OnnxExporter, a client that edits the returned model."""

import collections

import onnx
import onnx_native
import onnxruntime
import pytest
import torch
from models.torchvision_kernels import load_torchvision_kernels

load_torchvision_kernels()  # transformers imports torchvision

from transformers import (  # noqa: E402
    BertConfig,
    BertModel,
    LlamaConfig,
    LlamaForCausalLM,
    T5Config,
    T5ForConditionalGeneration,
)
from transformers.exporters.exporter_onnx import OnnxConfig, OnnxExporter  # noqa: E402

SIZES = {"vocab_size": 64, "max_position_embeddings": 64}


def decoder(head_size=4, layers=1):
    config = LlamaConfig(
        hidden_size=4 * head_size,
        intermediate_size=32,
        num_hidden_layers=layers,
        num_attention_heads=4,
        num_key_value_heads=2,
        **SIZES,
    )
    return LlamaForCausalLM(config)


def encoder():
    config = BertConfig(
        hidden_size=16, intermediate_size=32, num_hidden_layers=1, num_attention_heads=4, **SIZES
    )
    return BertModel(config)


def encoder_decoder():
    config = T5Config(
        vocab_size=64,
        d_model=16,
        d_kv=4,
        d_ff=32,
        num_layers=1,
        num_heads=4,
        decoder_start_token_id=0,
    )
    return T5ForConditionalGeneration(config)


def inputs(batch, length, model):
    ids = torch.randint(1, 64, (batch, length))
    given = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    if isinstance(model, T5ForConditionalGeneration):
        given["decoder_input_ids"] = torch.randint(1, 64, (batch, length - 2))
    return given


@pytest.mark.parametrize("make", [decoder, encoder, encoder_decoder])
def test_export(make, tmp_path):
    torch.manual_seed(0)
    model = make().eval()
    config = OnnxConfig(dynamic=True)
    exported = OnnxExporter().export(model, inputs(2, 7, model), config=config)
    # The exporter's edits of the returned model.
    assert exported.program.producer_name == "onnx_native"
    assert {"logits", "last_hidden_state"} & {
        value.name for value in exported.program.graph.outputs
    }
    exported.save_pretrained(tmp_path)
    onnx.checker.check_model(str(next(tmp_path.rglob("*.onnx"))), full_check=True)
    loaded = type(exported).from_pretrained(tmp_path)
    for batch, length in ((2, 7), (3, 4)):
        given = inputs(batch, length, model)
        with torch.no_grad():
            expected = model(**given)[0]
        torch.testing.assert_close(loaded(**given)[0], expected, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("make", [decoder, encoder_decoder])
def test_export_for_generation(make):
    torch.manual_seed(0)
    model = make().eval()
    given = inputs(2, 7, model)
    given.pop("decoder_input_ids", None)
    exported = OnnxExporter().export_for_generation(model, given, config=OnnxConfig(dynamic=True))
    assert "decode" in exported.components
    for component in exported.components.values():
        assert component.program.producer_name == "onnx_native"


# transformers' fusions take the norms in the target's form and join all but the first with the
# residual before them. They find an attention with its cache if the head size is a multiple of 8,
# and with it a rotation in the target's form if it is one of 16.
@pytest.mark.parametrize(
    ("target", "head_size", "layers", "rotations", "norms", "attentions"),
    [
        ("onnx", 4, 1, 0, 0, 0),
        ("onnx", 16, 2, 0, 0, 2),
        ("onnxruntime-cpu", 4, 1, 2, 3, 0),
        ("onnxruntime-cpu", 16, 2, 0, 5, 2),
    ],
)
def test_decode_fused_for_onnx_runtime(
    target, head_size, layers, rotations, norms, attentions, tmp_path
):
    torch.manual_seed(0)
    model = decoder(head_size, layers).eval()
    config = OnnxConfig(dynamic=True, ort_fusions="cpu")
    with onnx_native.options(target=target):
        exported = OnnxExporter().export_for_generation(model, inputs(2, 7, model), config=config)
    exported.save_pretrained(tmp_path)
    nodes = onnx.load(tmp_path / "decode.onnx").graph.node
    found = collections.Counter(node.op_type for node in nodes)
    assert found["GroupQueryAttention"] == attentions
    assert found["RotaryEmbedding"] == rotations
    norm = "SimplifiedLayerNormalization"
    assert found[norm] + found[f"Skip{norm}"] == norms
    session = onnxruntime.InferenceSession(tmp_path / "decode.onnx")
    for batch, length in ((2, 7), (3, 4), (1, 1)):
        ids = torch.randint(1, 64, (batch, length + 1))
        with torch.no_grad():
            past = model(ids[:, :-1]).past_key_values
            feeds = {"input_ids": ids[:, -1:], "position_ids": torch.full((batch, 1), length)}
            for i, layer in enumerate(past.layers):
                name = f"input.past_key_values.layers.{i}"
                feeds |= {f"{name}.keys": layer.keys, f"{name}.values": layer.values}
            expected = model(ids).logits[:, -1:]
        feeds = {name: each.numpy() for name, each in feeds.items()}
        [logits] = session.run(["logits"], feeds)
        torch.testing.assert_close(torch.from_numpy(logits), expected, atol=1e-5, rtol=1e-4)
