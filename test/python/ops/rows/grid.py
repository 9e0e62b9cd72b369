"""Rows of csrc/ops/nn/grid.cpp."""

import torch

from ops.row import Case, Row, floats

aten = torch.ops.aten

ROWS = [
    Row("aten::grid_sampler", opinfo="nn.functional.grid_sample"),
    Row(
        "aten::grid_sampler_2d",
        opinfo="grid_sampler_2d",
        pick=lambda samples: samples[::2],
        # Eager computes the coordinates in float16.
        tolerance={"float16": (3e-2, 3e-2)},
    ),
    Row(
        "aten::grid_sampler_3d",
        opinfo="grid_sampler_3d",
        pick=lambda samples: samples[::4],
        opset=20,
    ),
    Row(
        "aten::affine_grid_generator",
        cases=(
            Case(lambda t: aten.affine_grid_generator(t, [2, 3, 4, 5], False), floats(2, 2, 3)),
            Case(lambda t: aten.affine_grid_generator(t, [2, 3, 1, 5], True), floats(2, 2, 3)),
            Case(lambda t: aten.affine_grid_generator(t, [2, 3, 4, 5, 6], True), floats(2, 3, 4)),
            Case(
                lambda t: aten.affine_grid_generator(t, [t.shape[0], 3, 4, 5], True),
                floats(2, 2, 3),
            ),
        ),
    ),
    Row("aten::im2col", opinfo="nn.functional.unfold"),
    Row(
        "aten::col2im",
        cases=(
            Case(
                lambda x: aten.col2im(x, [5, 6], [2, 3], [1, 1], [1, 0], [2, 1]), floats(2, 18, 12)
            ),
            Case(lambda x: aten.col2im(x, [4, 4], [2, 2], [2, 2], [0, 0], [1, 1]), floats(12, 4)),
        ),
    ),
]
