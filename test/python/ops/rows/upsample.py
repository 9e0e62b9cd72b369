"""Rows of csrc/ops/nn/upsample.cpp and resample.cpp."""

from typing import Any

import torch

from ops.row import Case, Row, floats, integers

aten = torch.ops.aten
BYTES = integers(2, 3, 7, 9, low=0, high=256).byte()
LINES, IMAGES, VOLUMES = floats(2, 3, 7), floats(2, 3, 7, 9), floats(2, 3, 4, 5, 6)


def interpolated(operator: Any, x: torch.Tensor, *arguments: Any) -> Case:
    return Case(lambda tensor: operator(tensor, *arguments), x)


ROWS = [
    Row(
        (
            "aten::upsample_nearest1d.vec",
            "aten::upsample_nearest2d.vec",
            "aten::upsample_nearest3d.vec",
        ),
        opinfo="nn.functional.interpolate",
        variant="nearest",
        pick=lambda samples: samples,
        cases=(
            interpolated(aten.upsample_nearest1d.vec, LINES, None, [1.7]),
            interpolated(aten.upsample_nearest2d.vec, IMAGES, None, [1.7, 0.6]),
            interpolated(aten.upsample_nearest3d.vec, VOLUMES, [8, 5, 3], None),
            interpolated(aten.upsample_nearest2d.vec, IMAGES.double(), [11, 4], None),
            interpolated(aten.upsample_nearest2d.vec, IMAGES.byte(), [11, 4], None),
        ),
    ),
    Row(
        (
            "aten::_upsample_nearest_exact1d.vec",
            "aten::_upsample_nearest_exact2d.vec",
            "aten::_upsample_nearest_exact3d.vec",
        ),
        opinfo="nn.functional.interpolate",
        variant="nearest-exact",
        pick=lambda samples: samples,
        cases=(
            interpolated(aten._upsample_nearest_exact1d.vec, LINES, None, [1.7]),
            interpolated(aten._upsample_nearest_exact2d.vec, IMAGES, None, [1.7, 0.6]),
            interpolated(aten._upsample_nearest_exact3d.vec, VOLUMES, [8, 5, 3], None),
            interpolated(aten._upsample_nearest_exact2d.vec, IMAGES.double(), [11, 4], None),
        ),
    ),
    Row("aten::upsample_linear1d.vec", opinfo="nn.functional.interpolate", variant="linear"),
    Row(
        "aten::upsample_bilinear2d.vec",
        opinfo="nn.functional.interpolate",
        variant="bilinear",
        cases=(
            interpolated(aten.upsample_bilinear2d.vec, IMAGES, None, False, [1.7, 0.6]),
            interpolated(aten.upsample_bilinear2d.vec, IMAGES.double(), [11, 4], True, None),
            interpolated(aten.upsample_bilinear2d.vec, IMAGES.double(), [11, 4], False, None),
            interpolated(aten.upsample_bilinear2d.vec, BYTES, [11, 4], False, None),
            interpolated(aten.upsample_bilinear2d.vec, BYTES, None, False, [1.7, 0.6]),
            interpolated(aten.upsample_bilinear2d.vec, BYTES, [11, 4], True, None),
        ),
    ),
    Row(
        "aten::upsample_bicubic2d.vec",
        opinfo="nn.functional.interpolate",
        variant="bicubic",
        cases=(
            interpolated(aten.upsample_bicubic2d.vec, IMAGES, None, False, [1.7, 0.6]),
            interpolated(aten.upsample_bicubic2d.vec, IMAGES.double(), [11, 4], False, None),
            interpolated(aten.upsample_bicubic2d.vec, BYTES, [11, 4], False, None),
        ),
    ),
    Row("aten::upsample_trilinear3d.vec", opinfo="nn.functional.interpolate", variant="trilinear"),
    Row(
        (
            "aten::upsample_nearest1d",
            "aten::upsample_nearest2d",
            "aten::upsample_nearest3d",
            "aten::_upsample_nearest_exact1d",
            "aten::_upsample_nearest_exact2d",
            "aten::_upsample_nearest_exact3d",
        ),
        name="upsample_nearest to a size",
        cases=(
            interpolated(aten.upsample_nearest1d, LINES, [5]),
            interpolated(aten.upsample_nearest2d, IMAGES, [14, 5], 2.1, None),
            interpolated(aten.upsample_nearest3d, VOLUMES, [8, 5, 3]),
            interpolated(aten._upsample_nearest_exact1d, LINES, [5]),
            interpolated(aten._upsample_nearest_exact2d, IMAGES, [14, 5], 2.1, None),
            interpolated(aten._upsample_nearest_exact3d, VOLUMES, [8, 5, 3]),
        ),
    ),
    Row(
        (
            "aten::upsample_linear1d",
            "aten::upsample_bilinear2d",
            "aten::upsample_bicubic2d",
            "aten::upsample_trilinear3d",
        ),
        name="upsample to a size",
        cases=(
            interpolated(aten.upsample_linear1d, LINES, [5], False),
            interpolated(aten.upsample_bilinear2d, IMAGES, [14, 5], False, 2.1, None),
            interpolated(aten.upsample_bilinear2d, IMAGES, [1, 5], True),
            interpolated(aten.upsample_bicubic2d, IMAGES, [14, 5], True),
            interpolated(aten.upsample_bicubic2d, IMAGES, [14, 5], False, 2.1, None),
            interpolated(aten.upsample_trilinear3d, VOLUMES, [8, 5, 3], True),
        ),
    ),
    Row(
        ("aten::_upsample_bilinear2d_aa", "aten::_upsample_bilinear2d_aa.vec"),
        opinfo="_upsample_bilinear2d_aa",
        pick=lambda samples: samples,
        cases=(
            interpolated(aten._upsample_bilinear2d_aa, IMAGES, [3, 14], True),
            interpolated(aten._upsample_bilinear2d_aa, BYTES, [3, 14], False),
            interpolated(aten._upsample_bilinear2d_aa.vec, IMAGES, None, False, [0.5, 1.4]),
        ),
    ),
    Row(
        (
            "aten::_upsample_bicubic2d_aa",
            "aten::_upsample_bicubic2d_aa.vec",
            "aten::_upsample_lanczos2d_aa",
            "aten::_upsample_lanczos2d_aa.vec",
        ),
        name="antialiasing with wide filters",
        cases=(
            interpolated(aten._upsample_bicubic2d_aa, IMAGES, [3, 14], True),
            interpolated(aten._upsample_bicubic2d_aa, BYTES, [3, 14], False),
            interpolated(aten._upsample_bicubic2d_aa.vec, IMAGES, [3, 14], False, None),
            interpolated(aten._upsample_lanczos2d_aa, IMAGES, [3, 14], False),
            interpolated(aten._upsample_lanczos2d_aa.vec, IMAGES, [3, 14], False, None),
        ),
    ),
]
