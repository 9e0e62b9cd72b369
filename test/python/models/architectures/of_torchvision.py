"""Models of torchvision: classification, segmentation, video, optical flow."""

from collections.abc import Callable
from typing import Any

import torch

from models.architecture import Architecture, floats


def create(path: str, **changes: Any) -> Callable[[], torch.nn.Module]:
    def made() -> torch.nn.Module:
        import torchvision

        found: Any = torchvision.models
        for name in path.split("."):
            found = getattr(found, name)
        return found(weights=None, **changes)

    return made


class Flow(torch.nn.Module):
    """RAFT with two refinements instead of twelve."""

    def __init__(self) -> None:
        super().__init__()
        self.raft = create("optical_flow.raft_small")()

    def forward(self, image1: torch.Tensor, image2: torch.Tensor) -> list[torch.Tensor]:
        return self.raft(image1, image2, num_flow_updates=2)


def _vit() -> torch.nn.Module:
    from torchvision.models import VisionTransformer

    return VisionTransformer(
        image_size=32, patch_size=8, num_layers=2, num_heads=4, hidden_dim=32, mlp_dim=37
    )


def _densenet() -> torch.nn.Module:
    from torchvision.models import DenseNet

    return DenseNet(growth_rate=8, block_config=(2, 2, 2, 2), num_init_features=16)


_ANY_SIZE = {"x": floats("batch", 3, "32*height", "32*width")}
_VIDEO = {"x": floats("batch", 3, 4, 64, 64)}

TORCHVISION = [
    Architecture("tv_mobilenet_v2", create("mobilenet_v2"), _ANY_SIZE),
    Architecture("tv_shufflenet", create("shufflenet_v2_x0_5"), _ANY_SIZE),
    Architecture("tv_squeezenet", create("squeezenet1_1"), _ANY_SIZE),
    Architecture(
        "tv_googlenet", create("googlenet", init_weights=False, aux_logits=False), _ANY_SIZE
    ),
    Architecture("tv_mnasnet", create("mnasnet0_5"), _ANY_SIZE),
    Architecture("tv_densenet", _densenet, _ANY_SIZE),
    Architecture("tv_vit", _vit, {"x": floats("batch", 3, 32, 32)}),
    Architecture("tv_swin_v2", create("swin_v2_t"), {"x": floats("batch", 3, 64, 64)}),
    Architecture(
        "tv_deeplabv3",
        create("segmentation.deeplabv3_mobilenet_v3_large", weights_backbone=None),
        _ANY_SIZE,
    ),
    Architecture(
        "tv_lraspp",
        create("segmentation.lraspp_mobilenet_v3_large", weights_backbone=None),
        {"input": _ANY_SIZE["x"]},
    ),
    Architecture("tv_r3d", create("video.r3d_18"), _VIDEO),
    Architecture("tv_s3d", create("video.s3d"), {"x": floats("batch", 3, 16, 224, 224)}),
    Architecture(
        "tv_raft",
        Flow,
        {"image1": floats(1, 3, 128, "8*columns"), "image2": floats(1, 3, 128, "8*columns")},
        {"columns": (16, 18)},
    ),
]
