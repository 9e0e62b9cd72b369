"""Rows of csrc/ops/tensor/slice.cpp."""

from collections.abc import Callable

import torch

from ops.row import Case, Row, bools, floats, integers

aten = torch.ops.aten

FLOAT = ("float32",)


def slices(x: torch.Tensor) -> list[torch.Tensor]:
    """Bounds inside and outside of a [?, 6, 5] tensor, and steps."""
    return [
        x[:, 1:4],
        x[:, -3:],
        x[:, :100],
        x[:, -100:3],
        x[:, 4:2],
        x[..., ::2],
        x[:, 1::3],
        aten.slice_copy.Tensor(x, -1, 1, -1, 2),
        aten.select.int(x, -2, -1),
        aten.select_copy.int(x, 1, 2),
        x[0],
        x[-1],
        aten.narrow(x, 1, 2, 3),
        aten.narrow(x, -1, -2, 2),
        aten.narrow_copy(x, 1, 0, 6),
    ]


def diagonals(x: torch.Tensor) -> list[torch.Tensor]:
    """Diagonals of a [?, 4, 5] tensor, in all directions."""
    return [
        aten.diagonal(x),
        aten.diagonal(x, 0, 1, 2),
        aten.diagonal(x, 2, 2, 1),
        aten.diagonal(x, -2, -1, 0),
        aten.diagonal(x, 10, 1, 2),
        aten.diagonal_copy(x, -1, 1, 2),
        aten.linalg_diagonal(x),
        aten.diag(x[0], 1),
        aten.diag(x[0, 0], -1),
        aten.diag_embed(x),
        aten.diag_embed(x, 2, 0, -2),
        aten.diag_embed(x, -1),
        aten.diagflat(x, 1),
    ]


def listed(*functions: Callable[[torch.Tensor], list[torch.Tensor]]) -> Case:
    """Returns all splits of a [8, 7, 6] tensor in one list."""

    def function(x: torch.Tensor) -> list[torch.Tensor]:
        return [part + 1 for split in functions for part in split(x)]

    return Case(function, floats(8, 7, 6))


def other_order(x: torch.Tensor) -> list[torch.Tensor]:
    """Flips, rolls and rotations of a [?, 4, 5] tensor."""
    return [
        aten.flip(x, [0, -1]),
        aten.flip(x, []) + 1,
        aten.fliplr(x),
        aten.flipud(x),
        aten.roll(x, [1]),
        aten.roll(x, [-1, 7], [0, 2]),
        aten.roll(x, [5, -100], [0, 1]),
        aten.rot90(x),
        aten.rot90(x, 2, [0, 2]),
        aten.rot90(x, -1, [1, 2]),
        aten.rot90(x, 4) + 1,
    ]


def strided(x: torch.Tensor) -> list[torch.Tensor]:
    """Other views of a [6, 4] tensor's memory."""
    return [
        aten.as_strided(x, [3, 2], [1, 2], 1),
        aten.as_strided(x, [2, 3], [3, 1], 4),
        aten.as_strided(x, [4, 6], [1, 4]),
        aten.as_strided(x, [], [], 3),
        aten.as_strided(x, [24], [1]),
        aten.as_strided_copy(x, [2, 2], [0, 1]),
    ]


def shuffled(x: torch.Tensor) -> list[torch.Tensor]:
    """Pixel shuffles of a [?, 8, 4, 6] tensor."""
    return [
        aten.pixel_shuffle(x, 2),
        aten.pixel_shuffle(x[0], 2),
        aten.pixel_unshuffle(x, 2),
    ]


ROWS = [
    Row(
        (
            "aten::slice.Tensor",
            "aten::slice_copy.Tensor",
            "aten::select.int",
            "aten::select_copy.int",
            "aten::narrow",
            "aten::narrow_copy",
        ),
        name="slices",
        cases=(
            Case(slices, floats(4, 6, 5)),
            Case(slices, bools(4, 6, 5)),
            Case(lambda x: (x[1:], x[:-1]), floats(4, 3)),
        ),
    ),
    Row(
        (
            "aten::diagonal",
            "aten::diagonal_copy",
            "aten::linalg_diagonal",
            "aten::diag",
            "aten::diag_embed",
            "aten::diagflat",
        ),
        name="diagonals",
        cases=(Case(diagonals, floats(3, 4, 5)), Case(diagonals, integers(3, 4, 5))),
    ),
    Row("aten::diagonal", opinfo="diagonal", dtypes=("float32", "bool")),
    Row("aten::diag_embed", opinfo="diag_embed", dtypes=("float32", "bool")),
    Row("aten::trace", opinfo="trace"),
    Row(
        (
            "aten::unbind.int",
            "aten::unbind_copy.int",
            "aten::split.Tensor",
            "aten::split_copy.Tensor",
            "aten::unsafe_split.Tensor",
            "aten::chunk",
            "aten::unsafe_chunk",
            "aten::split_with_sizes",
            "aten::split_with_sizes_copy",
            "aten::split.sizes",
            "aten::unsafe_split_with_sizes",
        ),
        name="splits",
        cases=(
            listed(
                lambda x: aten.unbind.int(x, 1),
                lambda x: aten.unbind_copy.int(x, -1),
                lambda x: aten.split.Tensor(x, 3, 1),
                lambda x: aten.split_copy.Tensor(x, 10, -1),
                lambda x: aten.unsafe_split.Tensor(x, 2, -1),
                lambda x: aten.chunk(x, 3, 1),
                lambda x: aten.unsafe_chunk(x, 4, 2),
                lambda x: aten.split_with_sizes(x, [2, 0, 5], 1),
                lambda x: aten.split_with_sizes_copy(x, [6], -1),
                lambda x: aten.split.sizes(x, [1, 5], 2),
                lambda x: aten.unsafe_split_with_sizes(x, [3, 4], 1),
            ),
        ),
    ),
    Row(
        "aten::chunk",
        name="chunk of a changing size",
        cases=(Case(lambda x: x.chunk(2), floats(8, 3)),),
        static="the number of parts is part of the program",
    ),
    Row(
        (
            "aten::tensor_split.sections",
            "aten::tensor_split.indices",
            "aten::hsplit.int",
            "aten::hsplit.array",
            "aten::dsplit.int",
            "aten::dsplit.array",
        ),
        name="tensor_splits",
        cases=(
            listed(
                lambda x: aten.tensor_split.sections(x, 3, 1),
                lambda x: aten.tensor_split.sections(x, 9, -1),
                lambda x: aten.tensor_split.indices(x, [2, 4, -1, 3], 1),
                lambda x: aten.hsplit.int(x, 7),
                lambda x: aten.hsplit.array(x, [1, 20]),
                lambda x: aten.hsplit.array(x[0, 0], [2]),
                lambda x: aten.dsplit.int(x, 2),
                lambda x: aten.dsplit.array(x, [-2]),
            ),
        ),
    ),
    Row(
        ("aten::vsplit.int", "aten::vsplit.array"),
        cases=(listed(lambda x: aten.vsplit.int(x, 4), lambda x: aten.vsplit.array(x, [1, 2])),),
        static="splits the first dimension",
    ),
    Row(
        "aten::tensor_split.tensor_indices_or_sections",
        cases=(Case(lambda x: x.tensor_split(torch.tensor([2, 3]), 1), floats(4, 5)),),
    ),
    Row(
        ("aten::flip", "aten::fliplr", "aten::flipud", "aten::roll", "aten::rot90"),
        name="other orders",
        cases=(Case(other_order, floats(3, 4, 5)), Case(other_order, bools(3, 4, 5))),
    ),
    Row(
        "aten::roll",
        opinfo="roll",
        dtypes=FLOAT,
        cases=(
            Case(lambda x: (x.roll(2, 0), x.roll(-5, 0), x.roll(x.shape[0] // 2, 0)), floats(3, 4)),
        ),
    ),
    Row("aten::unfold", opinfo="unfold", dtypes=FLOAT),
    Row("aten::unfold_copy", opinfo="unfold_copy", dtypes=FLOAT),
    Row(
        ("aten::as_strided", "aten::as_strided_copy"),
        name="strided",
        cases=(Case(strided, floats(6, 4)),),
        static="strides are of one shape",
    ),
    Row(
        ("aten::pixel_shuffle", "aten::pixel_unshuffle"),
        name="shuffled pixels",
        cases=(Case(shuffled, floats(3, 8, 4, 6)), Case(shuffled, integers(2, 8, 2, 2))),
    ),
    Row(
        ("aten::channel_shuffle", "aten::native_channel_shuffle"),
        name="shuffled channels",
        cases=(
            Case(
                lambda x: (aten.channel_shuffle(x, 4), aten.native_channel_shuffle(x, 2)),
                floats(3, 8, 4, 6),
            ),
        ),
        static="torch.export specializes the batch",
    ),
    Row(
        "aten::as_strided",
        name="resize_",
        opinfo="resize_",
        cases=(
            Case(lambda x: x.clone().resize_(x.shape[0], 5), floats(2, 3, 4)),
            Case(lambda x: (y := x.clone(), y.resize_(2, 6).add_(1)), floats(2, 3, 4)),
        ),
    ),
    Row("aten::as_strided", name="resize_as_", opinfo="resize_as_", static="sizes are constants"),
]
