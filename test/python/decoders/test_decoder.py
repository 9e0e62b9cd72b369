"""Exported decoders generate the tokens that eager PyTorch generates."""

import json
import pathlib
import sys
import warnings

import numpy as np
import onnx
import onnx.reference
import onnx_native
import pytest
import torch
from models.torchvision_kernels import load_torchvision_kernels

load_torchvision_kernels()  # transformers imports torchvision

import transformers  # noqa: E402

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "examples"))

import generate  # noqa: E402

STEPS = 16
VOCABULARY = 99
SIZES = {
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "intermediate_size": 40,
    "max_position_embeddings": 128,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": 0,
}
TOKENS = {
    "vocab_size": VOCABULARY,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "decoder_start_token_id": 1,
}
UNTIED = {"tie_word_embeddings": False}  # a tied head of random weights repeats the last token
EXPERTS = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 24}
DECODERS = {
    "Llama": SIZES,
    "Qwen3": SIZES,
    "Gemma2": {**SIZES, **UNTIED, "sliding_window": 8},
    "Phi3": SIZES,
    "GPT2": {
        "vocab_size": VOCABULARY,
        "n_embd": 32,
        "n_layer": 2,
        "n_head": 4,
        "n_positions": 128,
        "bos_token_id": 1,
        "eos_token_id": 2,
    },
    "Mistral": {**SIZES, "sliding_window": 8},
    "Mixtral": {**SIZES, "num_local_experts": 4},
    "Qwen2Moe": {**SIZES, **EXPERTS, "shared_expert_intermediate_size": 24},
}
WHISPER = {
    **TOKENS,
    "d_model": 32,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 37,
    "decoder_ffn_dim": 37,
    "num_mel_bins": 8,
    "max_source_positions": 30,
    "max_target_positions": 128,
}
T5 = {**TOKENS, **UNTIED, "d_model": 32, "d_kv": 8, "d_ff": 37, "num_layers": 2, "num_heads": 4}
ATTENTIONS = {name: 2 for name in DECODERS if name != "Gemma2"}  # it has eager attention


def spread(model):
    """Draws weights large enough that the tokens vary."""
    torch.manual_seed(0)
    for parameter in model.parameters():
        if parameter.ndim > 1:
            torch.nn.init.normal_(parameter, std=0.2)
    return model.eval()


def decoder(name):
    config = getattr(transformers, f"{name}Config")(**DECODERS[name])
    kind = "LMHeadModel" if name == "GPT2" else "ForCausalLM"
    return spread(getattr(transformers, name + kind)(config))


def t5():
    return spread(transformers.T5ForConditionalGeneration(transformers.T5Config(**T5)))


def whisper(**settings):
    config = transformers.WhisperConfig(**WHISPER | settings)
    return spread(transformers.WhisperForConditionalGeneration(config))


def prompts(batch, length=7):
    """Prompts, of which the first two are padded on the left if there are several."""
    torch.manual_seed(batch)
    ids = torch.randint(3, VOCABULARY, (batch, length))
    mask = torch.ones_like(ids)
    if batch > 1:
        mask[0, :3] = 0
        mask[1, :1] = 0
    return ids * mask, mask


def eager(model, batch, steps=STEPS, **inputs):
    """Returns the tokens and logits of eager's generate()."""
    settings = {
        "do_sample": False,
        "max_new_tokens": steps,
        "eos_token_id": None,
        "pad_token_id": 0,
        "return_dict_in_generate": True,
        "output_logits": True,
    }
    # Whisper's own generate() also cuts sounds into pieces.
    found = transformers.GenerationMixin.generate(model, **inputs, **settings)
    return found.sequences[:, -steps:].numpy(), torch.stack(found.logits, 1)


def assert_generates(folder, expected, ids, mask, source=None):
    tokens, logits = expected
    runtime = generate.Decoder(folder, optimized=False)
    got, scores = runtime.generate(ids.numpy(), mask.numpy(), tokens.shape[1], source=source)
    torch.testing.assert_close(torch.from_numpy(scores), logits, atol=1e-4, rtol=1e-4)
    np.testing.assert_array_equal(got, tokens)
    assert len(tokens) == 1 or len(np.unique(tokens)) > 2


def check(folder):
    for path in folder.glob("*.onnx"):
        onnx.checker.check_model(str(path), full_check=True)


def export(model, folder, **arguments):
    """Exports without a warning: the model is right for all sizes."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", torch.onnx.errors.OnnxExporterWarning)
        return onnx_native.export_decoder(model, folder, **arguments)


@pytest.mark.parametrize("opset", [20, 23])
@pytest.mark.parametrize("name", DECODERS)
def test_tokens(name, opset, tmp_path):
    model = decoder(name)
    exported = export(model, tmp_path, opset_version=opset)
    assert exported.programs["model.onnx"].export_report["capture"]["guards"] == []
    check(tmp_path)
    for batch in (1, 3):
        ids, mask = prompts(batch)
        expected = eager(model, batch, input_ids=ids, attention_mask=mask)
        assert_generates(tmp_path, expected, ids, mask)


@pytest.mark.parametrize("opset", [20, 23])
@pytest.mark.parametrize("name", DECODERS)
def test_tokens_with_shared_buffers(name, opset, tmp_path):
    model = decoder(name)
    exported = export(model, tmp_path, opset_version=opset, target="onnxruntime-cpu")
    assert exported.programs["model.onnx"].export_report["capture"]["guards"] == []
    nodes = exported.programs["model.onnx"].model_proto.graph.node
    attentions = [node for node in nodes if node.op_type == "GroupQueryAttention"]
    assert len(attentions) == 2
    # The layers share the lengths.
    assert len({tuple(node.input[5:7]) for node in attentions}) == 1
    for batch in (1, 3):
        ids, mask = prompts(batch)
        expected = eager(model, batch, input_ids=ids, attention_mask=mask)
        assert_generates(tmp_path, expected, ids, mask)


@pytest.mark.parametrize("target", ["onnx", "onnxruntime-cpu"])
@pytest.mark.parametrize("name", ["Llama", "Gemma2", "Mixtral"])
def test_tokens_in_half_precision(name, target, tmp_path):
    model = decoder(name)
    with onnx_native.options(precision="float16", keep_io_types=False):
        exported = export(model, tmp_path, target=target)
    graph = exported.programs["model.onnx"].model_proto.graph
    caches = [value for value in graph.input if value.name.startswith("past")]
    assert {value.type.tensor_type.elem_type for value in caches} == {onnx.TensorProto.FLOAT16}
    for batch in (1, 3):
        ids, mask = prompts(batch)
        tokens, logits = eager(model, batch, input_ids=ids, attention_mask=mask)
        runtime = generate.Decoder(tmp_path)
        got, scores = runtime.generate(ids.numpy(), mask.numpy(), STEPS)
        np.testing.assert_array_equal(got, tokens)
        error = np.abs(scores.astype(np.float32) - logits.numpy()).max()
        assert error < 1e-2 * logits.abs().max()


def test_separate_buffers_with_group_query_attention(tmp_path):
    """Past and present may also be different buffers."""
    model = decoder("Llama")
    export(model, tmp_path, target="onnxruntime-cpu")
    ids, mask = prompts(3)
    tokens, logits = eager(model, 3, input_ids=ids, attention_mask=mask)
    runtime = generate.Decoder(tmp_path, optimized=False)
    assert runtime.shares_buffers
    runtime.shares_buffers = False
    got, scores = runtime.generate(ids.numpy(), mask.numpy(), STEPS)
    torch.testing.assert_close(torch.from_numpy(scores), logits, atol=1e-4, rtol=1e-4)
    np.testing.assert_array_equal(got, tokens)


def test_verification_of_group_query_attention(tmp_path):
    """The operator of the captured program computes what the model computes."""
    model = decoder("Gemma2")
    exported = export(model, None, target="onnxruntime-cpu")
    ids, mask = prompts(2)
    with torch.no_grad():
        expected = model(input_ids=ids, attention_mask=mask).logits
    program = exported.programs["model.onnx"].exported_program
    buffers = [torch.zeros(2, 2, 16, 8) for _ in range(4)]
    positions = (mask.cumsum(1) - 1).clamp(min=0)
    found = program.module()([ids, mask, positions, *buffers])
    # What is padding sees nothing; its results have no meaning.
    torch.testing.assert_close(found[0][mask > 0], expected[mask > 0], atol=1e-4, rtol=1e-4)
    assert found[1].shape == (2, 2, 16, 8)


GPT_OSS = {**SIZES, "num_local_experts": 4, "sliding_window": 8}
GPT_J = {"vocab_size": VOCABULARY, "n_embd": 32, "n_layer": 2, "n_head": 4, "rotary_dim": 4}
FALCON = {
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
}


@pytest.mark.parametrize("target", ["onnx", "onnxruntime-cpu"])
def test_attention_with_sinks(target, tmp_path):
    model = spread(transformers.GptOssForCausalLM(transformers.GptOssConfig(**GPT_OSS)))
    exported = export(model, tmp_path, target=target)
    nodes = exported.programs["model.onnx"].model_proto.graph.node
    sinks = [node.input[11] for node in nodes if node.op_type == "GroupQueryAttention"]
    names = [f"model.layers.{i}.self_attn.sinks" for i in range(2)]
    assert sinks == (names if target == "onnxruntime-cpu" else [])
    for batch in (1, 3):
        ids, mask = prompts(batch)
        expected = eager(model, batch, input_ids=ids, attention_mask=mask)
        assert_generates(tmp_path, expected, ids, mask)


WINDOWS = {
    "Mistral": {**SIZES, "sliding_window": 8},
    "Gemma2": {**SIZES, "sliding_window": 8},
    "GptOss": GPT_OSS,
}


@pytest.mark.parametrize("name", WINDOWS)
def test_window_caches(name, tmp_path):
    """Buffers of the window, and larger ones, over steps far beyond it."""
    config = getattr(transformers, f"{name}Config")(**WINDOWS[name])
    model = spread(getattr(transformers, f"{name}ForCausalLM")(config))
    exported = export(model, tmp_path, target="onnxruntime-cpu", window_caches=True)
    program = exported.programs["model.onnx"]
    lengths = {
        each.type.tensor_type.shape.dim[2].dim_param
        for each in program.model_proto.graph.input
        if each.name.startswith("past_key_values.")
    }
    sees_all = {"past_sequence_length"} if name != "Mistral" else set()
    assert lengths == {"window_cache_length"} | sees_all
    for window in (8, 11, 40):
        for batch in (1, 3):
            ids, mask = prompts(batch, 13)
            tokens, logits = eager(model, batch, 24, input_ids=ids, attention_mask=mask)
            runtime = generate.Decoder(tmp_path, optimized=False, window=window)
            got, scores = runtime.generate(ids.numpy(), mask.numpy(), 24)
            torch.testing.assert_close(torch.from_numpy(scores), logits, atol=1e-4, rtol=1e-4)
            np.testing.assert_array_equal(got, tokens)


@pytest.mark.parametrize("room", [8, 11])
def test_verification_of_window_caches(room):
    """The operator of the captured program keeps what ONNX Runtime keeps."""
    model = spread(
        transformers.MistralForCausalLM(transformers.MistralConfig(**WINDOWS["Mistral"]))
    )
    exported = export(model, None, target="onnxruntime-cpu", window_caches=True)
    program = exported.programs["model.onnx"]
    module = program.exported_program.module()
    torch.manual_seed(0)
    for total, length in ((13, 13), (14, 1), (17, 3), (30, 1)):
        ids = torch.randint(3, VOCABULARY, (1, length))
        mask = torch.ones(1, total, dtype=torch.int64)
        positions = torch.arange(total - length, total)[None]
        buffers = [torch.randn(1, 2, room, 8) for _ in range(4)]
        inputs = [ids, mask, positions, *buffers]
        found, expected = program(inputs), module(inputs)
        torch.testing.assert_close(found[0], expected[0], atol=1e-4, rtol=1e-4)
        kept = total if total <= room else 8 + (total - room - 1) % (room - 7)
        for got, each in zip(found[1:], expected[1:], strict=True):
            torch.testing.assert_close(got[:, :, :kept], each[:, :, :kept], atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("name", ["Llama", *WINDOWS])
def test_static_cache(name, tmp_path):
    """Past and present are one buffer; TensorScatter writes to it."""
    settings = WINDOWS.get(name, SIZES)
    config = getattr(transformers, f"{name}Config")(**settings)
    model = spread(getattr(transformers, f"{name}ForCausalLM")(config))
    exported = export(model, tmp_path, opset_version=24, static_cache=True)
    program = exported.programs["model.onnx"]
    assert program.export_report["capture"]["guards"] == []
    writes = [n for n in program.model_proto.graph.node if n.op_type == "TensorScatter"]
    assert len(writes) == 4
    check(tmp_path)
    for batch in (1, 3):
        ids, mask = prompts(batch, 13)
        expected = eager(model, batch, 24, input_ids=ids, attention_mask=mask)
        assert_generates(tmp_path, expected, ids, mask)


def test_static_cache_in_the_reference_evaluator(tmp_path):
    model = decoder("Llama")
    program = export(model, None, opset_version=24, static_cache=True).programs["model.onnx"]
    ids, mask = prompts(2)
    positions = (mask.cumsum(1) - 1).clamp(min=0)
    buffers = [torch.zeros(2, 2, 12, 8) for _ in range(4)]
    names = [each.name for each in program.model_proto.graph.input]
    values = (each.numpy() for each in (ids, mask, positions, *buffers))
    evaluator = onnx.reference.ReferenceEvaluator(program.model_proto)
    found = evaluator.run(None, dict(zip(names, values, strict=True)))
    with torch.no_grad():
        expected = model(input_ids=ids, attention_mask=mask, position_ids=positions).logits
    rows = mask.bool()
    torch.testing.assert_close(
        torch.from_numpy(found[0])[rows], expected[rows], atol=1e-4, rtol=1e-4
    )
    assert [each.shape for each in found[1:]] == [(2, 2, 12, 8)] * 4
    assert not any(each[:, :, 7:].any() for each in found[1:])


def test_static_cache_of_an_older_opset():
    with pytest.raises(ValueError, match="needs TensorScatter: pass opset_version=24"):
        onnx_native.export_decoder(decoder("Llama"), opset_version=23, static_cache=True)


def test_two_forms_of_caches():
    with pytest.raises(ValueError, match="two forms of the same caches"):
        onnx_native.export_decoder(decoder("Mistral"), static_cache=True, window_caches=True)


@pytest.mark.parametrize(
    ("make", "target"),
    [(lambda: decoder("Llama"), "onnxruntime-cpu"), (lambda: decoder("Mistral"), "onnx")],
)
def test_window_caches_without_windows(make, target):
    with pytest.raises(ValueError, match="window_caches= is for sliding windows"):
        onnx_native.export_decoder(make(), target=target, window_caches=True)


def test_window_caches_of_an_encoder_decoder():
    with pytest.raises(ValueError, match="window_caches= is for decoders of texts; T5"):
        onnx_native.export_decoder(t5(), target="onnxruntime-cpu", window_caches=True)


@pytest.mark.parametrize("target", ["onnx", "onnxruntime-cpu"])
@pytest.mark.parametrize(("name", "sizes"), [("GPTJ", GPT_J), ("Falcon", FALCON)])
def test_attention_of_another_form(name, sizes, target, tmp_path):
    """Models that do not use transformers' attention functions."""
    config = getattr(transformers, f"{name}Config")(**sizes)
    model = spread(getattr(transformers, f"{name}ForCausalLM")(config))
    chosen = model.config._attn_implementation
    exported = onnx_native.export_decoder(model, tmp_path, target=target)
    assert model.config._attn_implementation == chosen
    nodes = exported.programs["model.onnx"].model_proto.graph.node
    assert "GroupQueryAttention" not in {node.op_type for node in nodes}
    ids, mask = prompts(3)
    expected = eager(model, 3, input_ids=ids, attention_mask=mask)
    assert_generates(tmp_path, expected, ids, mask)


@pytest.mark.parametrize("opset", [20, 23])
def test_tokens_of_t5(opset, tmp_path):
    model = t5()
    export(model, tmp_path, opset_version=opset)
    check(tmp_path)
    for batch in (1, 3):
        ids, mask = prompts(batch)
        ids, mask = ids.flip(1), mask.flip(1)  # an encoder's texts are padded on the right
        expected = eager(model, batch, input_ids=ids, attention_mask=mask)
        source = {"input_ids": ids.numpy(), "attention_mask": mask.numpy()}
        start = torch.ones(batch, 1, dtype=torch.int64)
        assert_generates(tmp_path, expected, start, start, source)


def test_what_encoder_and_decoder_share_is_stored_once(tmp_path):
    """T5's embedding is also the decoder's head."""
    model = t5()
    export(model, tmp_path)
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == ["decoder.onnx", "encoder+decoder.data", "encoder.onnx"]
    large = [each.nbytes for each in model.parameters() if each.nbytes >= 1024]
    stored = sum((size + 4095) // 4096 * 4096 for size in large)
    assert stored - 4096 < (tmp_path / "encoder+decoder.data").stat().st_size <= stored
    export(model, None).save(tmp_path / "inside", external_data=False)
    names = sorted(path.name for path in (tmp_path / "inside").iterdir())
    assert names == ["decoder.onnx", "encoder.onnx"]


@pytest.mark.parametrize("make", [t5, lambda: decoder("Llama")])
def test_a_checkpoint_in_shards(make, tmp_path):
    """A model on the meta device refers to the checkpoint, and nothing is stored twice."""
    model = make()
    model.save_pretrained(tmp_path / "checkpoint", max_shard_size="20KB")
    index = tmp_path / "checkpoint" / "model.safetensors.index.json"
    with torch.device("meta"):
        empty = make()
    folder = tmp_path / "folder"
    with onnx_native.options(weights="module"):
        export(empty, folder, checkpoint=index)
        export(empty, None).save(folder, checkpoint=index)
    shards = {path.name for path in index.parent.glob("*.safetensors")}
    assert len(shards) > 2
    assert shards < {path.name for path in folder.iterdir()}
    assert not list(folder.glob("*.data"))
    ids, mask = prompts(3)
    if model.config.is_encoder_decoder:
        ids, mask = ids.flip(1), mask.flip(1)
        source = {"input_ids": ids.numpy(), "attention_mask": mask.numpy()}
        start = torch.ones(3, 1, dtype=torch.int64)
    else:
        source, start = None, ids
    expected = eager(model, 3, input_ids=ids, attention_mask=mask)
    assert_generates(folder, expected, start, mask if source is None else start, source)


def test_shards_of_data(tmp_path):
    model = decoder("Llama")
    export(model, tmp_path, max_shard_size="10KB")
    names = {path.name for path in tmp_path.iterdir()}
    assert {"model.onnx", "model-00001-of-00012.data", "genai_config.json"} <= names
    ids, mask = prompts(3)
    expected = eager(model, 3, input_ids=ids, attention_mask=mask)
    assert_generates(tmp_path, expected, ids, mask)
    with pytest.raises(ValueError, match="max_shard_size= is about data files"):
        export(model, None).save(tmp_path, external_data=False, max_shard_size="10KB")


@pytest.mark.parametrize("opset", [20, 23])
def test_tokens_of_whisper(opset, tmp_path):
    model = whisper()
    export(model, tmp_path, opset_version=opset)
    check(tmp_path)
    for batch in (1, 3):
        torch.manual_seed(batch)
        sound = torch.randn(batch, 8, 60)
        start = torch.tensor([[1, 5]]).repeat(batch, 1)
        expected = eager(model, batch, input_features=sound, decoder_input_ids=start)
        source = {"audio_features": sound.numpy()}
        assert_generates(tmp_path, expected, start, torch.ones_like(start), source)


@pytest.mark.captures("torch.export")
@pytest.mark.parametrize("target", ["onnx", "onnxruntime-cpu"])
def test_tokens_with_torch_export(target, tmp_path):
    model = decoder("Mistral")
    export(model, tmp_path, opset_version=20, target=target)
    ids, mask = prompts(3)
    expected = eager(model, 3, input_ids=ids, attention_mask=mask)
    assert_generates(tmp_path, expected, ids, mask)


@pytest.mark.parametrize("name", ATTENTIONS)
def test_attention_takes_past_and_present(name):
    exported = export(decoder(name), None, opset_version=23)
    proto = exported.programs["model.onnx"].model_proto
    nodes = [node for node in proto.graph.node if node.op_type == "Attention"]
    assert len(nodes) == ATTENTIONS[name]
    for i, node in enumerate(nodes):
        assert node.input[4:] == [f"past_key_values.{i}.key", f"past_key_values.{i}.value"]
        assert node.output[1:] == [f"present.{i}.key", f"present.{i}.value"]


def test_prompt_in_pieces(tmp_path):
    """A step of several tokens may follow a past."""
    model = decoder("Mistral")
    export(model, tmp_path, opset_version=23)
    ids, mask = prompts(3, 12)
    positions = (mask.cumsum(1) - 1).clamp(min=0)
    with torch.no_grad():
        expected = model(input_ids=ids, attention_mask=mask, position_ids=positions).logits
    runtime = generate.Decoder(tmp_path, optimized=False)
    past, found = runtime.empty_past(3), []
    for start, end in ((0, 5), (5, 6), (6, 12)):
        feeds = {
            "input_ids": ids[:, start:end].numpy(),
            "attention_mask": mask[:, :end].numpy(),
            "position_ids": positions[:, start:end].numpy(),
        }
        logits, past = runtime.step(feeds, past)
        found.append(torch.from_numpy(logits))
    torch.testing.assert_close(torch.cat(found, 1), expected, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("target", ["onnx", "onnxruntime-cpu"])
@pytest.mark.parametrize("name", ["Mistral", "Gemma2"])
def test_padding_takes_no_room_in_a_window(name, target, tmp_path):
    """onnxruntime-genai pads prompts on the right."""
    model = decoder(name)
    export(model, tmp_path, target=target)
    ids, _ = prompts(1, 14)
    length, width, buffer = 5, 12, 16
    mask = torch.zeros(1, 16, dtype=torch.int64)
    mask[:, :length] = 1
    mask[:, width:] = 1
    row = torch.cat([ids[:, :length], torch.zeros(1, width - length), ids[:, length:]], 1).long()
    positions = (mask.cumsum(1) - 1).clamp(min=0)
    with torch.no_grad():
        expected = model(input_ids=ids[:, : length + 4]).logits[:, length:]
    runtime = generate.Decoder(tmp_path, optimized=False)
    past, found = runtime.empty_past(1, buffer), []
    for start, end in ((0, 12), (12, 13), (13, 14), (14, 15), (15, 16)):
        feeds = {
            "input_ids": row[:, start:end].numpy(),
            "attention_mask": mask[:, :end].numpy(),
            "position_ids": positions[:, start:end].numpy(),
        }
        logits, past = runtime.step(feeds, past)
        found.append(torch.from_numpy(logits))
    torch.testing.assert_close(torch.cat(found[1:], 1), expected, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("name", ["Llama", "GPT2"])
def test_last_logits(name, tmp_path):
    model = decoder(name)
    export(model, tmp_path, last_logits=True)
    ids, mask = prompts(3)
    expected = eager(model, 3, input_ids=ids, attention_mask=mask)
    assert_generates(tmp_path, expected, ids, mask)
    runtime = generate.Decoder(tmp_path)
    positions = np.maximum(mask.numpy().cumsum(1) - 1, 0)
    feeds = {"input_ids": ids.numpy(), "attention_mask": mask.numpy(), "position_ids": positions}
    logits, _ = runtime.step(feeds, runtime.empty_past(3))
    assert logits.shape == (3, 1, VOCABULARY)


def shapes(values):
    return {
        value.name: [each.dim_param or each.dim_value for each in value.type.tensor_type.shape.dim]
        for value in values
    }


def test_names():
    exported = export(decoder("Llama"), None)
    [(file, program)] = exported.programs.items()
    assert file == "model.onnx"
    graph = program.model_proto.graph
    past = ["batch_size", 2, "past_sequence_length", 8]
    total = "past_sequence_length + sequence_length"
    assert shapes(graph.input) == {
        "input_ids": ["batch_size", "sequence_length"],
        "attention_mask": ["batch_size", total],
        "position_ids": ["batch_size", "sequence_length"],
        "past_key_values.0.key": past,
        "past_key_values.0.value": past,
        "past_key_values.1.key": past,
        "past_key_values.1.value": past,
    }
    present = ["batch_size", 2, total, 8]
    assert shapes(graph.output) == {
        "logits": ["batch_size", "sequence_length", VOCABULARY],
        "present.0.key": present,
        "present.0.value": present,
        "present.1.key": present,
        "present.1.value": present,
    }


def test_weights_keep_their_names():
    model = decoder("Llama")
    exported = export(model, None)
    names = {each.name for each in exported.programs["model.onnx"].model_proto.graph.initializer}
    assert {"model.norm.weight", "lm_head.weight.T"} <= names


def test_names_of_a_pair():
    exported = export(t5(), None)
    assert list(exported.programs) == ["encoder.onnx", "decoder.onnx"]
    encoder, decoder = (each.model_proto.graph for each in exported.programs.values())
    assert [each.name for each in encoder.input] == ["input_ids", "attention_mask"]
    assert [each.name for each in encoder.output] == [
        "encoder_hidden_states",
        "present_key_cross_0",
        "present_value_cross_0",
        "present_key_cross_1",
        "present_value_cross_1",
    ]
    assert [each.name for each in decoder.input] == [
        "input_ids",
        "encoder_attention_mask",
        *(f"past_key_values.{i}.{kind}" for i in (0, 1) for kind in ("key", "value")),
        *(f"past_{kind}_cross_{i}" for i in (0, 1) for kind in ("key", "value")),
    ]
    assert exported.genai_config is None


def test_genai_config(tmp_path):
    export(decoder("Mistral"), tmp_path)
    config = json.loads((tmp_path / "genai_config.json").read_text())
    described = config["model"]
    assert described["type"] == "mistral"
    assert described["vocab_size"] == VOCABULARY
    assert described["context_length"] == config["search"]["max_length"] == 128
    assert [described[f"{name}_token_id"] for name in ("bos", "eos", "pad")] == [1, 2, 0]
    sizes = ("num_hidden_layers", "num_attention_heads", "num_key_value_heads", "head_size")
    assert [described["decoder"][name] for name in sizes] == [2, 4, 2, 8]
    assert described["decoder"]["filename"] == "model.onnx"
    assert described["decoder"]["inputs"] == {
        "input_ids": "input_ids",
        "attention_mask": "attention_mask",
        "position_ids": "position_ids",
        "past_key_names": "past_key_values.%d.key",
        "past_value_names": "past_key_values.%d.value",
    }
    assert described["decoder"]["outputs"] == {
        "logits": "logits",
        "present_key_names": "present.%d.key",
        "present_value_names": "present.%d.value",
    }


def test_genai_config_of_whisper():
    assert export(whisper(), None).genai_config is None  # genai takes sounds of one length only
    config = export(whisper(max_source_positions=1500), None).genai_config["model"]
    assert config["type"] == "whisper"
    assert config["encoder"]["outputs"]["cross_present_key_names"] == "present_key_cross_%d"
    assert config["decoder"]["inputs"]["cross_past_value_names"] == "past_value_cross_%d"
    assert config["decoder_start_token_id"] == 1


def test_model_is_as_before():
    model = decoder("Llama")
    names = set(vars(model))
    with onnx_native.disabled():
        exported = export(model, None)
        assert not onnx_native.is_enabled()
    assert exported.programs["model.onnx"].model_proto.producer_name == "onnx_native"
    assert model.config._attn_implementation == "sdpa"
    assert set(vars(model)) == names
    with pytest.raises(torch.onnx.OnnxExporterError):
        export(model, None, opset_version=1)
    assert model.config._attn_implementation == "sdpa"


def test_models_without_a_cache_are_errors():
    sizes = {"vocab_size": VOCABULARY, "hidden_size": 32, "num_hidden_layers": 2}
    model = transformers.BertLMHeadModel(transformers.BertConfig(**sizes, num_attention_heads=4))
    with pytest.raises(ValueError, match="keeps no tensors"):
        export(model.eval(), None)
