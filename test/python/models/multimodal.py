"""Small models of transformers that read images or sounds and generate text."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from models.torchvision_kernels import load_torchvision_kernels

load_torchvision_kernels()  # transformers imports torchvision

import transformers  # noqa: E402

VOCABULARY = 99
PLACE = 90  # the token of a part of an image or of a sound
START = 92  # the token before an image
TEXT = {
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "intermediate_size": 40,
    "max_position_embeddings": 512,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": 0,
    "tie_word_embeddings": False,  # a tied head of random weights repeats the last token
}
VISION = {
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 20,
    "image_size": 16,
    "patch_size": 4,
}
QWEN_VISION = {
    "depth": 2,
    "hidden_size": 16,
    "intermediate_size": 20,
    "num_heads": 2,
    "patch_size": 4,
    "spatial_merge_size": 2,
    "temporal_patch_size": 2,
    "out_hidden_size": 32,
}
SECTIONS = {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [2, 1, 1]}
AUDIO = {
    "num_mel_bins": 8,
    "d_model": 16,
    "hidden_size": 16,
    "encoder_layers": 2,
    "num_hidden_layers": 2,
    "encoder_attention_heads": 2,
    "num_attention_heads": 2,
    "encoder_ffn_dim": 64,
    "intermediate_size": 64,
    "max_source_positions": 16,
}
Inputs = dict[str, torch.Tensor]


def noise(*sizes: int) -> torch.Tensor:
    return torch.randn(sizes, generator=torch.Generator().manual_seed(sum(sizes)))


def pixels(count: int) -> tuple[Inputs, list[int]]:
    """Returns images of one size, and how many tokens each of them has."""
    return {"pixel_values": noise(count, 3, 16, 16)}, [16] * count


def quarter(count: int) -> tuple[Inputs, list[int]]:
    return {"pixel_values": noise(count, 3, 16, 16)}, [4] * count


def listed(count: int) -> tuple[Inputs, list[int]]:
    return {"pixel_values": noise(1, count, 3, 16, 16)}, [4] * count


def grids(count: int) -> tuple[Inputs, list[int]]:
    """Returns images of different sizes."""
    grid = torch.tensor([[1, 4, 6], [1, 2, 4], [1, 6, 2]])[:count]
    values = noise(int(grid.prod(1).sum()), 3 * 2 * 4 * 4)
    return {"pixel_values": values, "image_grid_thw": grid}, (grid.prod(1) // 4).tolist()


def parts(count: int) -> tuple[Inputs, list[int]]:
    """Returns images and their parts, with the sizes of the images."""
    values = {"pixel_values": noise(count, 2, 3, 16, 16)}
    return values | {"image_sizes": torch.full((count, 2), 16)}, [36] * count


def sized(count: int) -> tuple[Inputs, list[int]]:
    values = {"pixel_values": noise(count, 3, 16, 16)}
    return values | {"image_sizes": torch.full((count, 2), 16)}, [4] * count


def masked_sounds(count: int) -> tuple[Inputs, list[int]]:
    """Returns sounds of different lengths."""
    mask = torch.ones(count, 32, dtype=torch.int64)
    mask[1:2, 20:] = 0
    features = {"input_features": noise(count, 8, 32), "input_features_mask": mask}
    return features, [5 if i == 1 else 8 for i in range(count)]


def named_sounds(count: int) -> tuple[Inputs, list[int]]:
    features, tokens = masked_sounds(count)
    return {
        name.replace("input_features_", "feature_attention_"): features[name] for name in features
    }, tokens


def sounds(count: int) -> tuple[Inputs, list[int]]:
    return {"input_features": noise(count, 8, 32)}, [4] * count


def text(model_type: str, **settings: Any) -> dict[str, Any]:
    return {**TEXT, "model_type": model_type, **settings}


def vision(model_type: str, **settings: Any) -> dict[str, Any]:
    return {**VISION, "model_type": model_type, **settings}


MROPE = {"rope_parameters": SECTIONS}
VIDEO = {"video_token_id": PLACE + 1, "vision_start_token_id": START}
# The images or sounds of each model, and the settings of its configuration. The name is that of the
# classes.
MODELS: dict[str, tuple[Callable[[int], tuple[Inputs, list[int]]], dict[str, Any]]] = {
    "Llava": (
        pixels,
        {"vision_config": vision("clip_vision_model"), "text_config": text("llama")},
    ),
    "InternVL": (
        quarter,
        {"vision_config": vision("internvl_vision"), "text_config": text("qwen2")},
    ),
    "AyaVision": (
        quarter,
        {
            "vision_config": vision("siglip_vision_model"),
            "text_config": text("cohere2", sliding_window=16),
        },
    ),
    "SmolVLM": (listed, {"vision_config": VISION, "text_config": text("llama")}),
    "Idefics3": (listed, {"vision_config": VISION, "text_config": text("llama")}),
    "Gemma3": (
        quarter,
        {
            "vision_config": vision("siglip_vision_model"),
            "text_config": text("gemma3_text", sliding_window=8),
            "mm_tokens_per_image": 4,
        },
    ),
    "PaliGemma": (
        pixels,
        {
            "vision_config": vision("siglip_vision_model", projection_dim=32),
            "text_config": text("gemma"),
            "projection_dim": 32,
        },
    ),
    "Qwen2VL": (
        grids,
        VIDEO
        | {
            "vision_config": {
                "depth": 2,
                "embed_dim": 16,
                "hidden_size": 32,
                "num_heads": 2,
                "patch_size": 4,
            },
            "text_config": TEXT | MROPE,
        },
    ),
    "Qwen2_5_VL": (
        grids,
        VIDEO
        | {
            "vision_config": QWEN_VISION | {"window_size": 16, "fullatt_block_indexes": [1]},
            "text_config": TEXT | MROPE,
        },
    ),
    "Qwen3VL": (
        grids,
        VIDEO
        | {
            "vision_config": QWEN_VISION
            | {"deepstack_visual_indexes": [0], "num_position_embeddings": 16},
            "text_config": TEXT | MROPE,
        },
    ),
    "Voxtral": (sounds, {"audio_config": AUDIO, "text_config": text("llama")}),
    "VipLlava": (
        pixels,
        {
            "vision_config": vision("clip_vision_model"),
            "text_config": text("llama"),
            "vision_feature_layers": [-1, -2],
        },
    ),
    "LlavaNext": (
        parts,
        {
            "vision_config": vision("clip_vision_model"),
            "text_config": text("llama"),
            "image_grid_pinpoints": [[16, 16]],
        },
    ),
    "LlavaOnevision": (
        parts,
        {
            "vision_config": vision("siglip_vision_model"),
            "text_config": text("qwen2"),
            "image_grid_pinpoints": [[16, 16]],
        },
    ),
    "Mistral3": (
        sized,
        {"vision_config": vision("pixtral", head_dim=8), "text_config": text("mistral")},
    ),
    "Cohere2Vision": (
        quarter,
        {
            "vision_config": vision("siglip_vision_model"),
            "text_config": text("cohere2", sliding_window=16),
            "alignment_intermediate_size": 64,
        },
    ),
    "Aria": (
        quarter,
        {
            "vision_config": vision("idefics3_vision"),
            "text_config": text("aria_text", moe_num_experts=4, moe_topk=2)
            | {"moe_num_shared_experts": 1},
            "projector_patch_to_query_dict": {16: 4},
        },
    ),
    "Idefics2": (
        listed,
        {
            "vision_config": VISION,
            "text_config": text("mistral"),
            "perceiver_config": {
                "resampler_n_latents": 4,
                "resampler_depth": 1,
                "resampler_n_heads": 2,
                "resampler_head_dim": 8,
                "num_key_value_heads": 1,
            },
        },
    ),
    "Llama4": (
        quarter,
        {
            "vision_config": VISION
            | {
                "vision_output_dim": 32,
                "projector_input_dim": 32,
                "projector_output_dim": 32,
                "intermediate_size": 64,
            },
            "text_config": TEXT
            | {"intermediate_size_mlp": 40, "num_local_experts": 2, "num_experts_per_tok": 1},
        },
    ),
    "Glm4v": (
        grids,
        VIDEO
        | {
            "vision_config": QWEN_VISION | {"image_size": 16, "attention_bias": False},
            "text_config": TEXT
            | {
                "rope_parameters": SECTIONS
                | {"mrope_section": [1, 1, 0], "partial_rotary_factor": 0.5}
            },
        },
    ),
    "Qwen3_5": (
        grids,
        VIDEO
        | {
            "vision_config": QWEN_VISION | {"num_position_embeddings": 16},
            "text_config": TEXT
            | {
                "layer_types": ["linear_attention", "full_attention"],
                "linear_num_key_heads": 2,
                "linear_num_value_heads": 4,
                "linear_key_head_dim": 8,
                "linear_value_head_dim": 8,
                "rope_parameters": SECTIONS
                | {"mrope_section": [1, 0, 0], "partial_rotary_factor": 0.25},
            },
        },
    ),
    "Qwen2Audio": (named_sounds, {"audio_config": AUDIO, "text_config": text("qwen2")}),
    "AudioFlamingo3": (masked_sounds, {"audio_config": AUDIO, "text_config": text("qwen2")}),
}


def make(name: str) -> tuple[Any, Callable[[int], tuple[Inputs, list[int]]]]:
    """Returns a model with weights large enough that the tokens vary, and its inputs."""
    torch.manual_seed(0)
    inputs, settings = MODELS[name]
    places = {"image_token_id": PLACE, "audio_token_id": PLACE}
    config = getattr(transformers, f"{name}Config")(**settings)
    for key, token in places.items():
        setattr(config, key, token)
    model = getattr(transformers, f"{name}ForConditionalGeneration")(config)
    for parameter in model.parameters():
        if parameter.ndim > 1:
            torch.nn.init.normal_(parameter, std=0.2)
    return model.eval(), inputs


def prompt(tokens: list[int]) -> list[int]:
    """Returns a text with images that have so many tokens."""
    row = [1, 7]
    for i, count in enumerate(tokens):
        row += [11 + i, START, *[PLACE] * count]
    return [*row, 5, 6]


def asked(
    name: str, model: Any, inputs: Callable[[int], tuple[Inputs, list[int]]], counts: list[int]
) -> tuple[torch.Tensor, torch.Tensor, Inputs, torch.Tensor | None]:
    """Returns prompts of texts with so many images each, their mask, inputs and positions."""
    given, tokens = inputs(sum(counts)) if sum(counts) else ({}, [])
    rows, rest = [], iter(tokens)
    for count in counts:
        rows.append(prompt([next(rest) for _ in range(count)]))
    length = max(map(len, rows))
    ids = torch.tensor([[0] * (length - len(row)) + row for row in rows])
    mask = (ids != 0).long()
    places = (ids == PLACE).long()
    positions = None
    if name == "Gemma3":
        given["token_type_ids"] = places
    if name == "PaliGemma":  # the prefix has the type 0
        given["token_type_ids"] = torch.zeros_like(ids)
    if hasattr(model.base_model, "get_rope_index") and given:
        given["mm_token_type_ids"] = places
        positions = model.base_model.get_rope_index(
            ids,
            mm_token_type_ids=places,
            image_grid_thw=given["image_grid_thw"],
            attention_mask=mask,
        )[0]
    return ids, mask, given, positions


def described(
    runtime: Any,
    ids: torch.Tensor,
    mask: torch.Tensor,
    steps: int,
    given: Inputs,
    positions: torch.Tensor | None,
) -> Any:
    """Returns the tokens of the exported parts, and their logits. See examples/describe.py."""
    return runtime.describe(
        ids.numpy(),
        mask.numpy(),
        steps,
        given={key: each.numpy() for key, each in given.items()},
        positions=None if positions is None else positions.numpy(),
    )
