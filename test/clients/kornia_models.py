"""Exports modules of kornia with dynamic sizes, and models by its own `to_onnx`.

Needs the package: see README.md.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from typing import Any

import comparison
import kornia
import numpy as np
import torch
from kornia import augmentation, color, enhance, feature, filters, geometry, morphology
from kornia.models import dexined, rt_detr
from kornia.onnx import ONNXSequential
from torch import Tensor, nn

IMAGES = ({0: "batch", 2: "height", 3: "width"},)
BATCH = ({0: "batch"},)


def images(channels: int = 3) -> list[comparison.Example]:
    shapes = [(2, 32, 40), (3, 48, 36), (1, 40, 40)]
    return [(torch.rand(batch, channels, height, width),) for batch, height, width in shapes]


class Function(nn.Module):
    """A function of kornia as a module."""

    def __init__(self, function: Callable[..., Any], **options: Any) -> None:
        super().__init__()
        self.function, self.options = function, options

    def forward(self, *inputs: Tensor) -> Any:
        return self.function(*inputs, **self.options)


def matrices(size: int) -> list[comparison.Example]:
    """Images with one matrix each, near the identity."""
    pairs = []
    for (x,) in images():
        matrix = torch.eye(3).repeat(len(x), 1, 1) + 0.01 * torch.rand(len(x), 3, 3)
        pairs.append((x, matrix[:, :size]))
    return pairs


def modules() -> dict[str, comparison.Case]:
    found: dict[str, comparison.Case] = {}

    def add(name: str, make: Any, examples: Any = None, dynamic: Any = IMAGES) -> None:
        found[f"kornia {name}"] = (lambda: make().eval()), examples or images(), dynamic

    def call(function: Any, examples: Any = None, dynamic: Any = IMAGES, **options: Any) -> None:
        # The forward has *inputs, whose dynamic shapes are one tuple.
        add(function.__name__, lambda: Function(function, **options), examples, (dynamic,))

    add("RgbToGrayscale", color.RgbToGrayscale)
    add("RgbToHsv", color.RgbToHsv)
    add("RgbToLab", color.RgbToLab)
    add("RgbToYcbcr", color.RgbToYcbcr)
    add("GaussianBlur2d", lambda: filters.GaussianBlur2d((5, 5), (1.5, 1.5)))
    add("MedianBlur", lambda: filters.MedianBlur((3, 3)))
    add("BilateralBlur", lambda: filters.BilateralBlur((3, 3), 0.1, (1.5, 1.5)))
    add("Sobel", filters.Sobel)
    add("Canny", filters.Canny)
    add("UnsharpMask", lambda: filters.UnsharpMask((5, 5), (1.5, 1.5)))
    add("Normalize", lambda: enhance.Normalize(torch.zeros(3), torch.ones(3) * 2))
    add("AdjustHue", lambda: enhance.AdjustHue(0.3))
    add("AdjustContrast", lambda: enhance.AdjustContrast(0.5))
    call(enhance.equalize_clahe, grid_size=(4, 4))
    call(morphology.dilation, kernel=torch.ones(3, 3))
    add("Resize", lambda: geometry.Resize((24, 28), align_corners=False))
    add("Rescale", lambda: geometry.Rescale(2.0))
    add("Hflip", geometry.Hflip)
    add("Rotate", lambda: geometry.Rotate(torch.tensor(30.0)))
    add("PyrDown", geometry.PyrDown)
    call(geometry.center_crop, size=(16, 20))
    add("CenterCrop", lambda: augmentation.CenterCrop((16, 20)))
    call(geometry.warp_affine, matrices(2), IMAGES + BATCH, dsize=(30, 34))
    call(geometry.warp_perspective, matrices(3), IMAGES + BATCH, dsize=(30, 34))
    add("CornerHarris", lambda: feature.CornerHarris(0.04), images(1))
    add("HardNet", lambda: feature.HardNet(pretrained=False), patches(), BATCH)
    add("SOSNet", lambda: feature.SOSNet(pretrained=False), patches(), BATCH)
    pairs = [(x, x.flip(3)) for (x,) in images()]
    call(kornia.metrics.ssim, pairs, IMAGES * 2, window_size=5)
    return found


def patches() -> list[comparison.Example]:
    return [(torch.rand(batch, 1, 32, 32),) for batch in (2, 5)]


def path() -> str:
    return os.path.join(tempfile.mkdtemp(), "model.onnx")


def gray() -> Any:
    return kornia.core.ImageSequential(color.RgbToGrayscale(), filters.Sobel())


def chain() -> None:
    """Two models, which kornia joins and runs in ONNX Runtime."""
    edges, blur = gray(), kornia.core.ImageSequential(filters.GaussianBlur2d((5, 5), (1.5, 1.5)))
    first = edges.to_onnx(save=False)
    second = blur.to_onnx(save=False, input_shape=[-1, 1, -1, -1], pseudo_shape=[2, 1, 32, 32])
    (x,) = images()[1]
    (found,) = ONNXSequential(first, second)(x.numpy())
    np.testing.assert_allclose(found, blur(edges(x)).numpy(), rtol=1e-3, atol=1e-4)


def detector() -> None:
    config = rt_detr.RTDETRConfig.from_name("rtdetr_r18vd")
    config.head_num_queries = 5
    # The scores of queries with random weights are nearly equal: their order depends on rounding.
    model = rt_detr.RTDETR.from_config(config).eval()
    model.to_onnx(path(), pseudo_shape=[2, 3, 128, 128])


CALLS = {
    "kornia to_onnx, ImageSequential": lambda: gray().to_onnx(path()),
    "kornia to_onnx, DexiNed": lambda: dexined.DexiNed(pretrained=False).to_onnx(
        path(), pseudo_shape=[2, 3, 64, 64]
    ),
    "kornia to_onnx, RT-DETR": detector,
    "kornia ONNXSequential": chain,
}

if __name__ == "__main__":
    comparison.start()
    comparison.of_models(modules())
    comparison.of_calls(CALLS)
