"""Vision models of transformers: classification, depth, segmentation, detection, vision-text."""

from typing import Any

import torch

from models.architecture import Architecture, floats, right_mask, tokens
from models.architectures.text import build

_SMALL: dict[str, Any] = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 37,
}
_PIXELS = {"pixel_values": floats("batch", 3, 32, 32)}
VIT: dict[str, Any] = {"image_size": 32, "patch_size": 8, **_SMALL}
_SWIN: dict[str, Any] = {
    "image_size": 64,
    "patch_size": 4,
    "embed_dim": 16,
    "depths": [1, 2],
    "num_heads": [2, 4],
    "window_size": 4,
}
_CLIP: dict[str, Any] = {
    "text_config": {**_SMALL, "vocab_size": 99, "max_position_embeddings": 64, "eos_token_id": 2},
    "vision_config": VIT,
    "projection_dim": 16,
}
_DETR: dict[str, Any] = {
    "d_model": 32,
    "encoder_layers": 1,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 37,
    "decoder_ffn_dim": 37,
    "num_queries": 6,
    "use_timm_backbone": False,
    "use_pretrained_backbone": False,
}


def _resnet_backbone() -> Any:
    from transformers import ResNetConfig

    configuration: Any = ResNetConfig
    return configuration(
        embedding_size=16,
        hidden_sizes=[16, 16, 32, 32],
        depths=[1, 1, 1, 1],
        layer_type="basic",
        out_features=["stage4"],
    )


def _detr() -> torch.nn.Module:
    return build("DetrForObjectDetection", backbone_config=_resnet_backbone(), **_DETR)()


def _conditional_detr() -> torch.nn.Module:
    return build("ConditionalDetrForObjectDetection", backbone_config=_resnet_backbone(), **_DETR)()


def _mask2former() -> torch.nn.Module:
    from transformers import SwinConfig

    configuration: Any = SwinConfig
    backbone = configuration(
        image_size=64,
        patch_size=4,
        embed_dim=16,
        depths=[1, 1, 1, 1],
        num_heads=[2, 2, 2, 2],
        window_size=2,
        out_features=["stage1", "stage2", "stage3", "stage4"],
    )
    return build(
        "Mask2FormerForUniversalSegmentation",
        "Mask2Former",
        backbone_config=backbone,
        feature_size=32,
        mask_feature_size=32,
        hidden_dim=32,
        encoder_feedforward_dim=32,
        dim_feedforward=32,
        encoder_layers=1,
        decoder_layers=2,
        num_attention_heads=2,
        num_queries=6,
        num_labels=3,
    )()


VISION = [
    Architecture("vit", build("ViTForImageClassification", **VIT), _PIXELS),
    Architecture("deit", build("DeiTModel", **VIT), _PIXELS),
    Architecture("beit", build("BeitForImageClassification", **VIT), _PIXELS),
    Architecture(
        "dinov2",
        build("Dinov2Model", **VIT),
        {"pixel_values": floats("batch", 3, "8*height", "8*width")},
    ),
    Architecture(
        "swin",
        build("SwinForImageClassification", **_SWIN),
        {"pixel_values": floats("batch", 3, 64, 64)},
    ),
    Architecture(
        "swinv2", build("Swinv2Model", **_SWIN), {"pixel_values": floats("batch", 3, 64, 64)}
    ),
    Architecture(
        "convnext",
        build("ConvNextForImageClassification", hidden_sizes=[8, 16, 24, 32], depths=[1, 1, 2, 1]),
        {"pixel_values": floats("batch", 3, "32*height", "32*width")},
    ),
    Architecture(
        "segformer",
        build(
            "SegformerForSemanticSegmentation",
            hidden_sizes=[8, 16, 24, 32],
            depths=[1, 1, 1, 1],
            num_attention_heads=[1, 2, 3, 4],
            decoder_hidden_size=32,
        ),
        {"pixel_values": floats("batch", 3, "32*height", "32*width")},
    ),
    Architecture("mask2former", _mask2former, {"pixel_values": floats("batch", 3, 64, 64)}),
    Architecture("detr", _detr, {"pixel_values": floats("batch", 3, "32*height", "32*width")}),
    Architecture(
        "conditional_detr",
        _conditional_detr,
        {"pixel_values": floats("batch", 3, "32*height", "32*width")},
    ),
    Architecture(
        "yolos",
        build(
            "YolosForObjectDetection",
            **{**VIT, "image_size": [32, 32]},
            num_detection_tokens=5,
        ),
        _PIXELS,
    ),
    Architecture(
        "dpt",
        build(
            "DPTForDepthEstimation",
            **{**VIT, "num_hidden_layers": 4},
            backbone_out_indices=[0, 1, 2, 3],
            neck_hidden_sizes=[8, 16, 24, 32],
            fusion_hidden_size=16,
            is_hybrid=False,
        ),
        _PIXELS,
    ),
    Architecture(
        "clip",
        build("CLIPModel", **_CLIP),
        {
            "input_ids": tokens("texts", "sequence"),
            "attention_mask": right_mask("texts", "sequence"),
            **_PIXELS,
        },
        {"texts": (4, 2)},
    ),
    Architecture(
        "siglip",
        build("SiglipModel", **{k: v for k, v in _CLIP.items() if k != "projection_dim"}),
        {"input_ids": tokens("texts", 64), **_PIXELS},
        {"texts": (4, 2)},
    ),
]
