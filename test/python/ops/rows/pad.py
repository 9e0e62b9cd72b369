"""Rows of csrc/ops/tensor/pad.cpp."""

import torch

from ops.row import Case, Row, bools, floats, integers

aten = torch.ops.aten


def all_modes(x: torch.Tensor) -> list[torch.Tensor]:
    """Of a [?, 3, 4, 5, 6] tensor."""
    three = [1, 2, 0, 3, 2, 1]
    return [
        aten.constant_pad_nd(x, [1, 2, -1, 0], 3),
        aten.constant_pad_nd(x, [-1, -1]),
        aten.pad(x, [1, 2, 3, 4], "constant", 0.5),
        aten.pad(x, three, "reflect"),
        aten.pad(x[0, 0], [2, 1], "replicate"),
        aten.pad(x[0, 0], [6, 5], "circular"),
        aten._pad_enum(x, three, 2),
        aten._pad_circular(x, [2, -1, 1, 4, 0, 3]),
        aten.reflection_pad1d(x[0, 0], [1, 2]),
        aten.reflection_pad2d(x[0], [5, 0, 1, 2]),
        aten.reflection_pad3d(x, three),
        aten.replication_pad1d(x[0, 0], [10, -1]),
        aten.replication_pad2d(x[0], [1, 0, -1, 2]),
        aten.replication_pad3d(x, three),
    ]


ROWS = [
    Row(
        (
            "aten::constant_pad_nd",
            "aten::pad",
            "aten::_pad_enum",
            "aten::_pad_circular",
            "aten::reflection_pad1d",
            "aten::reflection_pad2d",
            "aten::reflection_pad3d",
            "aten::replication_pad1d",
            "aten::replication_pad2d",
            "aten::replication_pad3d",
        ),
        name="pads",
        cases=(
            Case(all_modes, floats(2, 3, 4, 5, 6)),
            Case(all_modes, floats(2, 3, 4, 5, 6, dtype=torch.float64)),
        ),
    ),
    Row(
        "aten::constant_pad_nd",
        opinfo="constant_pad_nd",
        cases=(Case(lambda x: aten.constant_pad_nd(x, [1, 2, 3, 0], 7), floats(3, 4)),),
    ),
    Row(
        "aten::pad",
        cases=(
            Case(lambda x: aten.pad(x, [1, 2], "constant", 1), integers(3, 4)),
            Case(lambda x: aten.pad(x, [1, 2, 1, 1], "constant", True), bools(3, 4)),
            Case(lambda x: aten.pad(x, [0, 0, 1, 1]), floats(3, 0)),
            Case(lambda x: aten.pad(x, [1, 2]), integers(3, 4, dtype=torch.int16)),
        ),
    ),
]
