"""Exports models of segmentation-models-pytorch, open_clip and monai with dynamic sizes.

Needs the packages: see README.md.
"""

from __future__ import annotations

from typing import Any

import comparison
import torch
from models import torchvision_kernels

torchvision_kernels.load_torchvision_kernels()
import open_clip  # noqa: E402
import segmentation_models_pytorch as smp  # noqa: E402
from monai.networks import nets  # noqa: E402

BATCH = ({0: "batch"},)
IMAGES = ({0: "batch", 2: "height", 3: "width"},)
VOLUMES = ({0: "batch", 2: "depth", 3: "height", 4: "width"},)
DECODERS = (
    "Unet UnetPlusPlus MAnet Linknet FPN PSPNet PAN DeepLabV3 DeepLabV3Plus UPerNet Segformer"
).split()
ENCODERS = (
    "mobilenet_v2 efficientnet-b0 timm-mobilenetv3_small_100 mit_b0 tu-convnext_atto"
).split()


def images(size: int) -> list[comparison.Example]:
    shapes = [(2, size, size), (1, size, 2 * size), (3, 2 * size, size)]
    return [(torch.rand(batch, 3, height, width),) for batch, height, width in shapes]


def volumes(size: int, *, square: bool = False) -> list[comparison.Example]:
    width = size if square else size * 3 // 2
    return [(torch.rand(1, 1, size, size, size),), (torch.rand(2, 1, size, width, size),)]


class Tower(torch.nn.Module):
    def __init__(self, name: str, method: str) -> None:
        super().__init__()
        self.model = open_clip.create_model(name)
        self.method = method

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return getattr(self.model, self.method)(x, normalize=True)


def pictures(batch: int) -> torch.Tensor:
    return torch.rand(batch, 3, 224, 224)


def texts(batch: int) -> torch.Tensor:
    return torch.randint(1, 49000, (batch, 77))


def cases() -> dict[str, comparison.Case]:
    found: dict[str, comparison.Case] = {}

    def add(name: str, make: Any, examples: Any, dynamic: Any) -> None:
        found[name] = (lambda: make().eval()), examples, dynamic

    options: dict[str, Any] = {"encoder_weights": None, "classes": 2}
    for name in DECODERS:
        size = 128 if name == "PAN" else 64
        make = getattr(smp, name)
        add(f"smp {name}", lambda m=make: m("resnet18", **options), images(size), IMAGES)
    for name in ENCODERS:
        add(f"smp Unet, {name}", lambda n=name: smp.Unet(n, **options), images(64), IMAGES)
    for name in ("ViT-B-32", "RN50"):
        pairs = [(pictures(batch),) for batch in (2, 3)]
        add(f"open_clip images, {name}", lambda n=name: Tower(n, "encode_image"), pairs, BATCH)
    words = [(texts(batch),) for batch in (2, 3)]
    add("open_clip texts", lambda: Tower("ViT-B-32", "encode_text"), words, BATCH)
    both = [(pictures(batch), texts(batch)) for batch in (2, 3)]
    add("open_clip", lambda: open_clip.create_model("ViT-B-32"), both, BATCH * 2)
    add("monai UNet", lambda: nets.UNet(3, 1, 2, (4, 8, 16), (2, 2)), volumes(32), VOLUMES)
    add("monai BasicUNet", lambda: nets.BasicUNet(3, 1, 2, (8,) * 6), volumes(32), VOLUMES)
    add("monai SegResNet", lambda: nets.SegResNet(3, 8, 1, 2), volumes(32), VOLUMES)
    add("monai SwinUNETR", lambda: nets.SwinUNETR(1, 2, feature_size=12), volumes(64), VOLUMES)
    add(
        "monai DynUNet",
        lambda: nets.DynUNet(3, 1, 2, [3, 3, 3], [1, 2, 2], [2, 2]),
        volumes(32),
        VOLUMES,
    )
    add(
        "monai DenseNet121",
        lambda: nets.DenseNet121(2, 1, 2),
        [(x[:, :1],) for (x,) in images(64)],
        IMAGES,
    )
    small: dict[str, Any] = {"hidden_size": 48, "mlp_dim": 64, "num_heads": 4}
    cube = (32, 32, 32)
    add(
        "monai UNETR",
        lambda: nets.UNETR(1, 2, cube, feature_size=4, **small),
        volumes(32, square=True),
        BATCH,
    )
    add(
        "monai ViT",
        lambda: nets.ViT(1, cube, (8, 8, 8), num_layers=2, classification=True, **small),
        volumes(32, square=True),
        BATCH,
    )
    return found


if __name__ == "__main__":
    comparison.start()
    comparison.of_models(cases())
