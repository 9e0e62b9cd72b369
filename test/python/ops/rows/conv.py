"""Rows of csrc/ops/nn/conv.cpp."""

import torch

from ops.row import Case, Row, floats

aten = torch.ops.aten

ROWS = [
    Row(
        "aten::conv1d",
        opinfo="nn.functional.conv1d",
        cases=(Case(aten.conv1d, floats(2, 3, 9), floats(4, 3, 3), floats(4)),),
    ),
    Row(
        "aten::conv2d",
        opinfo="nn.functional.conv2d",
        cases=(Case(aten.conv2d, floats(2, 3, 9, 8), floats(4, 3, 3, 3), floats(4)),),
    ),
    Row(
        "aten::conv3d",
        opinfo="nn.functional.conv3d",
        cases=(Case(aten.conv3d, floats(2, 3, 5, 6, 7), floats(4, 3, 3, 3, 3), floats(4)),),
    ),
    Row(
        (
            "aten::conv1d.padding",
            "aten::conv2d.padding",
            "aten::conv3d.padding",
            "aten::_convolution_mode",
        ),
        name="conv with padding by name",
        cases=(
            Case(
                lambda x, w: aten._convolution_mode(x, w, None, [1], "same", [2], 1),
                floats(2, 3, 9),
                floats(4, 3, 4, seed=1),
            ),
            Case(
                lambda x, w: aten.conv1d.padding(x, w, None, [1], "same", [2]),
                floats(2, 3, 9),
                floats(4, 3, 4, seed=1),
            ),
            Case(
                lambda x, w: aten.conv2d.padding(x, w, None, [2, 1], "valid", [1, 1]),
                floats(3, 9, 8),
                floats(4, 3, 2, 3, seed=1),
            ),
            Case(
                lambda x, w: aten.conv3d.padding(x, w, None, [1], "same", [1, 2, 1], 3),
                floats(2, 3, 4, 5, 6),
                floats(6, 1, 2, 3, 2, seed=1),
            ),
        ),
    ),
    Row(
        "aten::conv_transpose1d",
        opinfo="nn.functional.conv_transpose1d",
        cases=(
            Case(
                lambda x, w: aten.conv_transpose1d(x, w, None, [2], [1], [1], 3),
                floats(2, 3, 9),
                floats(3, 4, 3),
            ),
        ),
    ),
    Row(
        "aten::conv_transpose2d.input",
        opinfo="nn.functional.conv_transpose2d",
        cases=(
            Case(
                lambda x, w: aten.conv_transpose2d.input(x, w, None, [2, 2], [1, 1], [1, 1], 3),
                floats(2, 3, 9, 8),
                floats(3, 4, 3, 3),
            ),
            # The output padding is as large as the stride or larger.
            Case(
                lambda x, w, bias: aten.conv_transpose2d.input(
                    x, w, bias, [1, 2], [1, 0], [1, 5], 1, [3, 6]
                ),
                floats(2, 3, 9, 8),
                floats(3, 4, 3, 3),
                floats(4),
            ),
        ),
    ),
    Row(
        "aten::conv_transpose3d.input",
        opinfo="nn.functional.conv_transpose3d",
        wide=True,
        cases=(
            Case(
                lambda x, w: aten.conv_transpose3d.input(
                    x, w, None, [2, 2, 2], [1, 1, 1], [1, 1, 1], 3
                ),
                floats(2, 3, 5, 6, 7),
                floats(3, 4, 3, 3, 3),
            ),
        ),
    ),
    Row(
        ("aten::convolution", "aten::_convolution"),
        name="convolution",
        cases=(
            Case(
                lambda x, w: (
                    aten.convolution(x, w, None, [2], [1], [1], True, [1], 1),
                    aten._convolution(
                        x, w, None, [1], [1], [2], False, [0], 1, False, False, True, True
                    ),
                ),
                floats(2, 3, 9),
                floats(3, 3, 3, seed=1),
            ),
        ),
    ),
    Row(
        "aten::conv_tbc",
        static="torch.export makes the sizes constants",
        cases=(
            Case(
                lambda x, w, c: aten.conv_tbc(x, w, c, 1),
                floats(7, 2, 3),
                floats(3, 3, 4, seed=1),
                floats(4),
            ),
        ),
    ),
]
