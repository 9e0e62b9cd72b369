"""Language models of transformers that also read images."""

from typing import Any

import torch

from models.architecture import Architecture, Axis, Input, floats, right_mask
from models.architectures.text import FEW_HEADS, build
from models.architectures.vision import VIT

_IMAGE = 97  # the token that an image's features replace
_PATCHES = 4
_VISION = {**VIT, "image_size": 16, "patch_size": 4}


def _tokens(*shape: Axis) -> Input:
    """Tokens with one image in each sentence."""

    def make(shape: tuple[int, ...]) -> torch.Tensor:
        tokens = torch.randint(3, _IMAGE, shape)
        tokens[:, 1 : 1 + _PATCHES] = _IMAGE
        return tokens

    return Input(make, shape)


_INPUTS = {
    "input_ids": _tokens("batch", "sequence"),
    "attention_mask": right_mask("batch", "sequence"),
    "pixel_values": floats("batch", 3, 16, 16),
}


class _Logits(torch.nn.Module):
    def __init__(self, model: torch.nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(
        self,
        input_ids: torch.Tensor,
        attention_mask: torch.Tensor,
        pixel_values: torch.Tensor,
    ) -> Any:
        return self.model(
            input_ids=input_ids,
            attention_mask=attention_mask,
            pixel_values=pixel_values,
            use_cache=False,
        ).logits


class _Tower(torch.nn.Module):
    """The vision tower of Qwen, for two images of fixed sizes."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.tower = model.model.visual

    def forward(self, patches: torch.Tensor) -> Any:
        return self.tower(patches, grid_thw=torch.tensor([[1, 4, 4], [1, 2, 4]])).pooler_output


def _internvl() -> torch.nn.Module:
    vision = {**_VISION, "image_size": [16, 16], "patch_size": [4, 4]}
    return _Logits(
        build(
            "InternVLForConditionalGeneration",
            vision_config={"model_type": "internvl_vision", **vision},
            text_config={"model_type": "qwen2", **FEW_HEADS},
            image_token_id=_IMAGE,
            image_seq_length=_PATCHES,
        )()
    )


def _gemma3() -> torch.nn.Module:
    layers = ["sliding_attention", "full_attention"]
    return _Logits(
        build(
            "Gemma3ForConditionalGeneration",
            vision_config={"model_type": "siglip_vision_model", **_VISION},
            text_config={"layer_types": layers, "sliding_window": 8, **FEW_HEADS},
            mm_tokens_per_image=_PATCHES,
            image_token_index=_IMAGE,
            boi_token_index=1,
            eoi_token_index=2,
        )()
    )


def _qwen2_5_vl_tower() -> torch.nn.Module:
    vision = {
        "depth": 2,
        "hidden_size": 32,
        "intermediate_size": 37,
        "num_heads": 4,
        "out_hidden_size": 32,
        "patch_size": 4,
        "spatial_merge_size": 2,
        "temporal_patch_size": 2,
        "window_size": 16,
        "fullatt_block_indexes": [1],
    }
    rotation = {"rope_type": "default", "rope_theta": 1e4, "mrope_section": [2, 1, 1]}
    return _Tower(
        build(
            "Qwen2_5_VLForConditionalGeneration",
            vision_config=vision,
            text_config={**FEW_HEADS, "rope_parameters": rotation},
        )()
    )


MULTIMODAL = [
    Architecture("internvl", _internvl, _INPUTS),
    Architecture("gemma3_vision", _gemma3, _INPUTS),
    Architecture("qwen2_5_vl_tower", _qwen2_5_vl_tower, {"patches": floats(24, 96)}),
]
