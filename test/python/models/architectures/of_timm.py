"""Image models of timm: convolutional networks, transformers, hybrids."""

from collections.abc import Callable
from typing import Any

import torch

from models.architecture import Architecture, floats


def create(name: str, **changes: Any) -> Callable[[], torch.nn.Module]:
    def made() -> torch.nn.Module:
        import timm

        return timm.create_model(name, pretrained=False, num_classes=10, **changes)

    return made


_ANY_SIZE = {"x": floats("batch", 3, "32*height", "32*width")}


def _square(side: int) -> dict[str, Any]:
    return {"x": floats("batch", 3, side, side)}


_VIT: dict[str, Any] = {
    "img_size": 32,
    "patch_size": 8,
    "embed_dim": 32,
    "depth": 2,
    "num_heads": 4,
}

TIMM = [
    Architecture("timm_efficientnet_lite0", create("efficientnet_lite0"), _ANY_SIZE),
    Architecture("timm_mobilenetv3", create("mobilenetv3_small_050"), _ANY_SIZE),
    Architecture("timm_resnet10t", create("resnet10t"), _ANY_SIZE),
    Architecture("timm_regnety", create("regnety_002"), _ANY_SIZE),
    Architecture("timm_ghostnet", create("ghostnet_050"), _ANY_SIZE),
    Architecture("timm_repvgg", create("repvgg_a0"), _ANY_SIZE),
    Architecture("timm_convnextv2", create("convnextv2_atto", depths=(1, 1, 2, 1)), _ANY_SIZE),
    Architecture("timm_nf_resnet", create("nf_resnet26"), _ANY_SIZE),
    Architecture("timm_vit", create("vit_tiny_patch16_224", **_VIT), _square(32)),
    Architecture(
        "timm_vit_dynamic",
        create("vit_tiny_patch16_224", dynamic_img_size=True, **_VIT),
        {"x": floats("batch", 3, "8*height", "8*width")},
        {"height": (4, 5), "width": (3, 6)},
    ),
    Architecture(
        "timm_eva02",
        create("eva02_tiny_patch14_224", img_size=28, embed_dim=48, depth=2, num_heads=3),
        _square(28),
    ),
    Architecture(
        "timm_swin",
        create(
            "swin_tiny_patch4_window7_224",
            img_size=56,
            embed_dim=12,
            depths=(2, 2),
            num_heads=(2, 4),
        ),
        _square(56),
    ),
    Architecture("timm_mixer", create("mixer_s32_224", img_size=64), _square(64)),
    Architecture(
        "timm_mobilevit",
        create("mobilevit_xxs"),
        {"x": floats("batch", 3, "64*height", "64*width")},
    ),
    Architecture("timm_edgenext", create("edgenext_xx_small"), _ANY_SIZE),
    Architecture("timm_efficientformer", create("efficientformerv2_s0"), _square(224)),
    Architecture("timm_levit", create("levit_128s"), _square(224)),
    Architecture("timm_xcit", create("xcit_nano_12_p16_224", depth=2), _ANY_SIZE),
    Architecture("timm_pvt", create("pvt_v2_b0", depths=(1, 1, 1, 1)), _ANY_SIZE),
    Architecture("timm_fastvit", create("fastvit_t8", layers=(1, 1, 1, 1)), _square(64)),
    Architecture("timm_poolformer", create("poolformer_s12"), _ANY_SIZE),
    Architecture(
        "timm_coatnet",
        create("coatnet_nano_rw_224", img_size=64),
        _square(64),
    ),
]
