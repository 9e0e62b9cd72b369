"""The models of graphs.py: real architectures with random weights, large enough to measure.

They are captured at sizes 0 of their inputs, and measured at sizes 1.
"""

from typing import Any

import torch
from models.architecture import SIZES, Architecture, Input, floats, mask, right_mask, tokens
from models.architectures import of_diffusers, of_timm, of_torchvision
from models.architectures.text import WithCache, build

HIDDEN, HEADS, LAYERS = 256, 8, 4
VOCABULARY = 1000
NO_CACHE: dict[str, Any] = {"use_cache": False}
ENCODER: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "hidden_size": HIDDEN,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": HEADS,
    "intermediate_size": 4 * HIDDEN,
    "max_position_embeddings": 512,
}
DECODER: dict[str, Any] = {
    **ENCODER,
    "max_position_embeddings": 2048,
    "num_key_value_heads": 2,
    "head_dim": HIDDEN // HEADS,
}
GPT2: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "n_embd": HIDDEN,
    "n_layer": LAYERS,
    "n_head": HEADS,
    "n_positions": 2048,
}
T5: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "d_model": HIDDEN,
    "d_kv": HIDDEN // HEADS,
    "d_ff": 4 * HIDDEN,
    "num_layers": LAYERS,
    "num_heads": HEADS,
    **NO_CACHE,
}
WHISPER: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "d_model": HIDDEN,
    "encoder_layers": LAYERS,
    "decoder_layers": LAYERS,
    "encoder_attention_heads": HEADS,
    "decoder_attention_heads": HEADS,
    "encoder_ffn_dim": 4 * HIDDEN,
    "decoder_ffn_dim": 4 * HIDDEN,
    "num_mel_bins": 80,
    "max_source_positions": 300,
    "max_target_positions": 512,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "decoder_start_token_id": 1,
    **NO_CACHE,
}
BATCHES = {"batch": (2, 1)}
LENGTHS = {**BATCHES, "length": SIZES["length"], "decoder_length": SIZES["decoder_length"]}


def ids(*shape: int | str) -> Input:
    return tokens(*shape, below=VOCABULARY)


def text(name: str, model: str, attend: Any, config: str = "", **changes: Any) -> Architecture:
    """A model of token identifiers and their mask."""
    inputs = {"input_ids": ids("batch", "length"), "attention_mask": attend("batch", "length")}
    return Architecture(name, build(model, config, **changes), inputs, LENGTHS)


def decode(name: str, model: str, heads: int, **changes: Any) -> Architecture:
    """One step of a decoder of two layers, after many tokens."""
    past = {
        f"{kind}{layer}": floats("batch", heads, "history", HIDDEN // HEADS)
        for layer in range(2)
        for kind in ("key", "value")
    }
    inputs = {"input_ids": ids("batch", 1), "attention_mask": mask("batch", "history + 1"), **past}
    return Architecture(name, lambda: WithCache(build(model, **changes)()), inputs, BATCHES)


def t5(name: str, attention: str) -> Architecture:
    def made() -> torch.nn.Module:
        model: Any = build("T5ForConditionalGeneration", **T5)()
        model.set_attn_implementation(attention)
        return model

    inputs = {
        "input_ids": ids("batch", "length"),
        "attention_mask": right_mask("batch", "length"),
        "decoder_input_ids": ids("batch", "decoder_length"),
    }
    return Architecture(name, made, inputs, LENGTHS)


def with_statistics(made: Any) -> Any:
    """The model with batch normalizations like those of a trained one. In a new one they shift
    nothing, and PyTorch's exporter leaves the biases out that they become."""

    def model() -> torch.nn.Module:
        module: torch.nn.Module = made()
        for each in module.modules():
            if isinstance(each, torch.nn.BatchNorm2d) and each.running_mean is not None:
                torch.nn.init.uniform_(each.running_mean, -0.1, 0.1)
                torch.nn.init.uniform_(each.bias, -0.1, 0.1)
        return module

    return model


def image(name: str, made: Any, side: int = 224, argument: str = "x") -> Architecture:
    inputs = {argument: floats("batch", 3, side, side)}
    return Architecture(name, with_statistics(made), inputs, BATCHES)


def _two_layers(settings: dict[str, Any]) -> dict[str, Any]:
    return {**settings, "n_layer" if "n_layer" in settings else "num_hidden_layers": 2}


TEXT = [
    text("bert", "BertModel", right_mask, **ENCODER),
    text("roberta", "RobertaForMaskedLM", right_mask, **ENCODER),
    text(
        "distilbert",
        "DistilBertForSequenceClassification",
        right_mask,
        vocab_size=VOCABULARY,
        dim=HIDDEN,
        n_layers=LAYERS,
        n_heads=HEADS,
        hidden_dim=4 * HIDDEN,
    ),
    text("gpt2", "GPT2LMHeadModel", mask, **GPT2, **NO_CACHE),
    text("llama", "LlamaForCausalLM", mask, **DECODER, **NO_CACHE),
    text("qwen3", "Qwen3ForCausalLM", mask, **DECODER, **NO_CACHE),
    text("gemma2", "Gemma2ForCausalLM", mask, sliding_window=64, **DECODER, **NO_CACHE),
    text("phi3", "Phi3ForCausalLM", mask, pad_token_id=0, **DECODER, **NO_CACHE),
    t5("t5", "sdpa"),
    t5("t5_eager", "eager"),
]
DECODE = [
    decode("gpt2_decode", "GPT2LMHeadModel", HEADS, **_two_layers(GPT2)),
    decode("llama_decode", "LlamaForCausalLM", 2, **_two_layers(DECODER)),
    decode("qwen3_decode", "Qwen3ForCausalLM", 2, **_two_layers(DECODER)),
]
SPEECH = [
    Architecture(
        "whisper",
        build("WhisperForConditionalGeneration", **WHISPER),
        {
            "input_features": floats("batch", 80, 600),
            "decoder_input_ids": ids("batch", "decoder_length"),
        },
        LENGTHS,
    )
]
IMAGES = [
    image("vit", of_timm.create("vit_tiny_patch16_224", depth=6)),
    image(
        "swin",
        build(
            "SwinForImageClassification",
            embed_dim=48,
            depths=[2, 2, 4, 2],
            num_heads=[2, 4, 8, 16],
        ),
        argument="pixel_values",
    ),
    image(
        "convnext",
        build(
            "ConvNextForImageClassification",
            hidden_sizes=[40, 80, 160, 320],
            depths=[2, 2, 6, 2],
        ),
        argument="pixel_values",
    ),
    image("resnet50", of_torchvision.create("resnet50")),
    image("efficientnet", of_torchvision.create("efficientnet_b0")),
    image("mobilenet_v3", of_torchvision.create("mobilenet_v3_large")),
    Architecture(
        "unet",
        of_diffusers.create(
            "UNet2DConditionModel",
            cross_attention_dim=64,
            attention_head_dim=8,
            block_out_channels=(32, 64),
            norm_num_groups=8,
            layers_per_block=2,
            down_block_types=("CrossAttnDownBlock2D", "DownBlock2D"),
            up_block_types=("UpBlock2D", "CrossAttnUpBlock2D"),
        ),
        {
            "sample": floats("batch", 4, 32, 32),
            "timestep": Input(lambda shape: torch.randint(0, 1000, shape), ("batch",)),
            "encoder_hidden_states": floats("batch", "length", 64),
        },
        LENGTHS,
    ),
]
MODELS = {model.name: model for model in (*TEXT, *DECODE, *SPEECH, *IMAGES)}
