"""Rows of csrc/ops/nn/pool.cpp, adaptive_pool.cpp and fractional_pool.cpp."""

from typing import Any

import torch

from ops.row import Case, Row, floats, integers

aten = torch.ops.aten
IMAGES, VOLUMES = floats(2, 3, 7, 9), floats(2, 3, 5, 6, 7)


def every(count: int) -> Any:
    """Returns about `count` samples, evenly spread."""
    return lambda samples: samples[:: max(1, len(samples) // count)]


ROWS = [
    Row(
        "aten::max_pool1d",
        cases=(
            Case(lambda x: aten.max_pool1d(x, 3, 2, 1, 1, True), floats(2, 3, 8)),
            Case(lambda x: aten.max_pool1d(x, [2], [], [0], [3]), floats(3, 8)),
        ),
    ),
    Row(
        "aten::max_pool2d",
        cases=(
            Case(lambda x: aten.max_pool2d(x, [3, 2], [], [1, 1], 1, True), IMAGES),
            Case(lambda x: aten.max_pool2d(x, 2, 2, 0, 2), IMAGES),
            Case(lambda x: aten.max_pool2d(x, 3), IMAGES[0]),
        ),
    ),
    Row(
        "aten::max_pool3d",
        cases=(Case(lambda x: aten.max_pool3d(x, [3, 2, 2], 2, 1, 1, True), VOLUMES),),
    ),
    Row(
        "aten::max_pool1d_with_indices",
        opinfo="nn.functional.max_pool1d",
        pick=every(4),
        cases=(Case(lambda x: aten.max_pool1d_with_indices(x, 3, 2, 1), floats(2, 3, 8)),),
    ),
    Row("aten::max_pool2d_with_indices", opinfo="nn.functional.max_pool2d", pick=every(6)),
    Row("aten::max_pool3d_with_indices", opinfo="nn.functional.max_pool3d", pick=every(6)),
    Row("aten::avg_pool1d", opinfo="nn.functional.avg_pool1d"),
    Row(
        "aten::avg_pool2d",
        opinfo="nn.functional.avg_pool2d",
        cases=(
            Case(lambda x: aten.avg_pool2d(x, [3, 2], 2, 1, True, False, 5), IMAGES),
            Case(lambda x: aten.avg_pool2d(x, 3, 2, 1, False, True, 4), IMAGES),
            Case(lambda x: aten.avg_pool2d(x, 3, 2, 1, True, False), IMAGES.double()),
            Case(lambda x: aten.avg_pool2d(x, 3, 2, 1, True), integers(2, 3, 7, 9)),
            Case(lambda x: aten.avg_pool2d(x, [2, 3], [2, 3], 1, True), torch.randn(1, 1, 3, 6)),
        ),
    ),
    Row("aten::avg_pool3d", opinfo="nn.functional.avg_pool3d"),
    Row(
        "aten::adaptive_avg_pool1d",
        opinfo="nn.functional.adaptive_avg_pool1d",
    ),
    Row(
        "aten::adaptive_avg_pool2d",
        opinfo="nn.functional.adaptive_avg_pool2d",
        cases=(
            Case(lambda x: aten.adaptive_avg_pool2d(x, [1, 1]), IMAGES),
            Case(lambda x: aten.adaptive_avg_pool2d(x, [3, 4]), IMAGES),
            Case(lambda x: aten.adaptive_avg_pool2d(x, [7, 3]), IMAGES),
            Case(lambda x: aten.adaptive_avg_pool2d(x, [1, 1]), IMAGES[0]),
            Case(lambda x: aten.adaptive_avg_pool2d(x.permute(2, 1, 0, 3), [1, 3]), IMAGES),
        ),
    ),
    Row("aten::adaptive_avg_pool3d", opinfo="nn.functional.adaptive_avg_pool3d"),
    Row(
        ("aten::_adaptive_avg_pool2d", "aten::_adaptive_avg_pool3d"),
        name="inner adaptive_avg_pool",
        cases=(
            Case(lambda x: aten._adaptive_avg_pool2d(x, [3, 4]), IMAGES),
            Case(lambda x: aten._adaptive_avg_pool3d(x, [3, 4, 2]), VOLUMES),
        ),
    ),
    Row("aten::adaptive_max_pool1d", opinfo="nn.functional.adaptive_max_pool1d"),
    Row(
        "aten::adaptive_max_pool2d",
        opinfo="nn.functional.adaptive_max_pool2d",
        cases=(Case(lambda x: aten.adaptive_max_pool2d(x, [3, 4]), IMAGES.round()),),
    ),
    Row("aten::adaptive_max_pool3d", opinfo="nn.functional.adaptive_max_pool3d"),
    Row(
        "aten::fractional_max_pool2d",
        static="the samples' first dimension would have to grow too",
        cases=(
            Case(
                lambda x, s: aten.fractional_max_pool2d(x, [2, 3], [3, 4], s),
                IMAGES,
                torch.rand(2, 3, 2, generator=torch.Generator().manual_seed(0)),
            ),
        ),
    ),
    Row(
        "aten::fractional_max_pool3d",
        static="the samples' first dimension would have to grow too",
        cases=(
            Case(
                lambda x, s: aten.fractional_max_pool3d(x, [2, 3, 2], [3, 2, 1], s),
                VOLUMES,
                torch.rand(2, 3, 3, generator=torch.Generator().manual_seed(0)),
            ),
            Case(
                lambda x, s: aten.fractional_max_pool3d(x[0], [2, 3, 2], [3, 2, 1], s),
                VOLUMES,
                torch.rand(2, 3, 3, generator=torch.Generator().manual_seed(0)),
            ),
        ),
    ),
    Row("aten::max_unpool2d", opinfo="nn.functional.max_unpool2d", pick=every(3)),
    Row("aten::max_unpool3d", opinfo="nn.functional.max_unpool3d", pick=every(3)),
]
