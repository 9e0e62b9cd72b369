"""Rows of csrc/ops/nn/vision.cpp."""

from typing import Any

import torch
from models.torchvision_kernels import load_torchvision_kernels

from ops.row import Case, Row, floats, integers

load_torchvision_kernels()
vision = torch.ops.torchvision

IMAGES = floats(2, 8, 9, 7)
HOLES = torch.where(IMAGES > 1.5, torch.nan, IMAGES)


def boxes(count: int, size: float = 20, seed: int = 0) -> torch.Tensor:
    """Returns corners x1, y1, x2, y2."""
    generator = torch.Generator().manual_seed(seed)
    low = torch.rand(count, 2, generator=generator) * size
    return torch.cat([low, low + torch.rand(count, 2, generator=generator) * size / 2], 1)


def regions(count: int, size: float = 20, seed: int = 0) -> torch.Tensor:
    """Returns image numbers and corners; some outside, one empty, one inverted."""
    images = integers(count, 1, low=0, high=2, seed=seed)
    result = torch.cat([images.float(), boxes(count, size, seed) - 2], 1)
    result[1, 3:] = result[1, 1:3]
    result[2, 3:] = result[2, 1:3] - 3.3
    return result


def suppression(count: int, threshold: float, dtype: torch.dtype = torch.float32) -> Case:
    scores = torch.rand(count, generator=torch.Generator().manual_seed(1))
    scores[: count // 4] = 0.5  # ties keep their order
    scored = torch.cat([boxes(count), scores[:, None]], 1).to(dtype)
    return Case(lambda x: vision.nms(x[:, :4], x[:, 4], threshold), scored)


def inverted(dtype: torch.dtype = torch.float32) -> Case:
    """Suppression of boxes some of which have x1 > x2, y1 > y2, or both; no others overlap them."""
    corners = boxes(40, 5)
    corners[::3, [0, 2]] = corners[::3, [2, 0]]
    corners[::4, [1, 3]] = corners[::4, [3, 1]]
    scores = torch.rand(40, generator=torch.Generator().manual_seed(2))
    return Case(lambda x, y: vision.nms(x, y, 0.2), corners.to(dtype), scores.to(dtype))


def batched_nms(dets: torch.Tensor, scores: torch.Tensor, classes: torch.Tensor) -> torch.Tensor:
    from torchvision import ops

    return ops.batched_nms(dets, scores, classes, 0.3)


def box_functions(a: torch.Tensor, b: torch.Tensor) -> list[torch.Tensor]:
    from torchvision import ops

    return [
        ops.box_iou(a, b),
        ops.generalized_box_iou(a, b),
        ops.distance_box_iou(a, b),
        ops.complete_box_iou(a, b),
        ops.box_area(a),
        ops.clip_boxes_to_image(a, (12, 15)),
        ops.remove_small_boxes(a, 1.5),
        ops.box_convert(a, "xyxy", "cxcywh"),
    ]


def region_cases(function: Any, *dtypes: torch.dtype, image: torch.Tensor = IMAGES) -> Any:
    """Returns cases with images and regions in each dtype."""
    return tuple(
        Case(lambda rois, x: function(x, rois), regions(6).to(dtype), image.to(dtype))
        for dtype in dtypes
    )


F32, F64, F16 = torch.float32, torch.float64, torch.float16


def deformable(
    channels: tuple[int, int] = (4, 6),
    groups: int = 1,
    offset_groups: int = 1,
    stride: tuple[int, int] = (1, 1),
    padding: tuple[int, int] = (1, 1),
    dilation: tuple[int, int] = (1, 1),
    kernel: tuple[int, int] = (3, 3),
    use_mask: bool = True,
    dtype: torch.dtype = F32,
) -> Case:
    sizes = [
        (size + 2 * p - (d * (k - 1) + 1)) // s + 1
        for size, p, d, k, s in zip((8, 9), padding, dilation, kernel, stride, strict=True)
    ]
    count = offset_groups * kernel[0] * kernel[1]
    inputs = (
        floats(2, channels[0], 8, 9, seed=1),
        floats(2, 2 * count, *sizes, seed=2) * 3,
        floats(2, count, *sizes, seed=3),
    )
    weight = floats(channels[1], channels[0] // groups, *kernel, seed=4).to(dtype)
    bias = floats(channels[1], seed=5).to(dtype)

    def function(x: torch.Tensor, offset: torch.Tensor, *mask: torch.Tensor) -> torch.Tensor:
        sizes = (*stride, *padding, *dilation, groups, offset_groups, use_mask)
        given = mask[0] if mask else x.new_zeros(x.shape[0], 1)
        return vision.deform_conv2d(x, weight, offset, given, bias, *sizes)

    return Case(function, *(x.to(dtype) for x in inputs[: 3 if use_mask else 2]))


ROWS = [
    Row(
        "torchvision::nms",
        cases=(
            suppression(40, 0.3),
            suppression(0, 0.3),
            suppression(1, 0.3),
            suppression(40, 0.0),
            suppression(40, 1.0),
            # A ratio equal to the threshold, rounded up to float32.
            Case(
                lambda dets, scores: vision.nms(dets, scores, 0.1),
                torch.tensor([[0.0, 0.0, 10.0, 1.0], [0.0, 0.0, 1.0, 1.0], [5.0, 5.0, 5.0, 5.0]]),
                torch.tensor([0.5, 0.4, 0.3]),
            ),
            suppression(40, 0.3, F64),
            suppression(40, -0.5),
            suppression(0, 0.3, F64),
            inverted(),
            inverted(F64),
            Case(batched_nms, boxes(30), floats(30), integers(30, low=0, high=3)),
        ),
    ),
    Row(
        "torchvision::roi_align",
        cases=(
            *region_cases(lambda x, r: vision.roi_align(x, r, 1.0, 3, 2, 2, False), F32, F64),
            *region_cases(lambda x, r: vision.roi_align(x, r, 0.5, 3, 2, 2, True), F32, F64),
            *region_cases(lambda x, r: vision.roi_align(x, r, 0.7, 2, 3, 0, False), F32, F64),
            *region_cases(lambda x, r: vision.roi_align(x, r, 0.7, 2, 3, -1, True), F32, F64),
            *region_cases(lambda x, r: vision.roi_align(x, r, 1.0, 3, 2, 2, False), F16),
            *region_cases(lambda x, r: vision.roi_align(x, r, 1, 3, 2, 2, True), F32, image=HOLES),
            Case(lambda r: vision.roi_align(IMAGES, r, 1.0, 3, 2, 2, True), regions(6)[:0]),
        ),
        tolerance={"float16": (2e-2, 2e-2)},
    ),
    Row(
        "torchvision::roi_pool",
        cases=(
            *region_cases(lambda x, r: vision.roi_pool(x, r, 1.0, 3, 2), F32, F64),
            *region_cases(lambda x, r: vision.roi_pool(x, r, 0.5, 3, 2)[0], F32, F64),
            *region_cases(lambda x, r: vision.roi_pool(x, r, 0.25, 2, 2), F32, image=HOLES),
            Case(lambda r: vision.roi_pool(IMAGES, r, 1.0, 3, 2), regions(6)[:0]),
        ),
    ),
    Row(
        "torchvision::ps_roi_align",
        cases=(
            *region_cases(lambda x, r: vision.ps_roi_align(x, r, 1.0, 2, 2, 2), F32, F64),
            *region_cases(lambda x, r: vision.ps_roi_align(x, r, 0.5, 2, 1, 0), F32, F64),
            Case(lambda r: vision.ps_roi_align(IMAGES, r, 1.0, 2, 2, 2), regions(6)[:0]),
        ),
    ),
    Row(
        "torchvision::ps_roi_pool",
        cases=(
            *region_cases(lambda x, r: vision.ps_roi_pool(x, r, 1.0, 2, 2), F32, F64),
            *region_cases(lambda x, r: vision.ps_roi_pool(x, r, 0.5, 4, 2), F32, image=HOLES),
            Case(lambda r: vision.ps_roi_pool(IMAGES, r, 1.0, 2, 2), regions(6)[:0]),
        ),
    ),
    Row(
        "torchvision::deform_conv2d",
        cases=(
            deformable(),
            deformable(use_mask=False, padding=(0, 0)),
            deformable(groups=2, offset_groups=4, stride=(2, 1), padding=(2, 0), dilation=(1, 2)),
            deformable(groups=2, offset_groups=2, kernel=(2, 3), dtype=F64),
            deformable(channels=(6, 4), groups=2, offset_groups=3, kernel=(1, 2), stride=(1, 3)),
        ),
    ),
    Row("aten::min.other", name="box functions", cases=(Case(box_functions, boxes(5), boxes(4)),)),
]
