"""Rows of csrc/ops/tensor/join.cpp."""

import torch
from torch.nn.utils.rnn import pad_sequence

from ops.row import Case, Row, bools, floats, integers

aten = torch.ops.aten

FLOAT = ("float32",)


def stacked(x: torch.Tensor, y: torch.Tensor) -> list[torch.Tensor]:
    """All ways to join two tensors."""
    return [
        aten.cat([x, y]),
        aten.concat([x, y], -1),
        aten.concatenate([x, y, x], 1),
        aten.stack([x, y]),
        aten.stack([y, x], -1),
        aten.hstack([x, y]),
        aten.vstack([x, y]),
        aten.row_stack([x, y[0]]),
        aten.dstack([x, y]),
        aten.column_stack([x[:, 0], y]),
        aten.block_diag([x, y[0], x[0, 0]]),
        aten.cat([torch.zeros(0), x, y.half()], 1),
    ]


def grids(x: torch.Tensor, y: torch.Tensor) -> list[torch.Tensor]:
    """Joins of two 1-D tensors."""
    return [
        *aten.meshgrid([x, y, x[0]]),
        *aten.meshgrid.indexing([x, y, x], indexing="xy"),
        *aten.meshgrid.indexing([x, y], indexing="ij"),
        aten.cartesian_prod([x, y]),
    ]


def interleaved(x: torch.Tensor) -> list[torch.Tensor]:
    """Repeats each element."""
    return [
        aten.repeat_interleave.self_int(x, 2),
        aten.repeat_interleave.self_int(x, 3, -1),
        aten.repeat_interleave.self_int(x, 1, 0) + 1,
        aten.repeat_interleave.self_int(x, 0, 1),
    ]


COUNTS = torch.tensor([2, 0, 1, 3])

ROWS = [
    Row(
        "aten::pad_sequence",
        cases=(
            Case(lambda x, y: pad_sequence([x, y]), floats(3, 2), floats(2, 2)),
            Case(lambda x, y: pad_sequence([y, x], True, -1.5), floats(3, 2), floats(2, 2)),
            Case(lambda x, y: pad_sequence([x, y, x], True, 7, "left"), integers(3), integers(5)),
        ),
    ),
    # torch.export can only record combinations of one element.
    Row(
        "aten::combinations",
        static="torch.export takes the size as a constant",
        cases=(
            Case(lambda x: torch.combinations(x, 1), floats(3)),
            Case(lambda x: torch.combinations(x, 0), floats(3)),
        ),
    ),
    Row(
        "aten::vander",
        static="torch.export takes the size as a constant",
        cases=(
            Case(lambda x: torch.vander(x, 3, increasing=True), torch.tensor([0.0, 2.0, -1.5])),
            Case(torch.vander, floats(4)),
            Case(lambda x: torch.vander(x, 2), integers(3, dtype=torch.int32)),
            Case(lambda x: torch.vander(x, 0), integers(3)),
        ),
    ),
    Row("aten::cat", opinfo="cat"),
    Row(
        (
            "aten::cat",
            "aten::concat",
            "aten::concatenate",
            "aten::stack",
            "aten::hstack",
            "aten::vstack",
            "aten::row_stack",
            "aten::dstack",
            "aten::column_stack",
            "aten::block_diag",
        ),
        name="stacked",
        cases=(
            Case(stacked, floats(3, 4), floats(3, 4, seed=1)),
            Case(stacked, integers(3, 4), integers(3, 4, dtype=torch.int16)),
            Case(stacked, bools(3, 4), integers(3, 4, dtype=torch.uint8)),
        ),
    ),
    Row("aten::hstack", opinfo="hstack", dtypes=FLOAT),
    Row("aten::dstack", opinfo="dstack", dtypes=FLOAT),
    Row("aten::column_stack", opinfo="column_stack", dtypes=FLOAT),
    Row("aten::block_diag", opinfo="block_diag", dtypes=FLOAT),
    Row("aten::_chunk_cat", opinfo="_chunk_cat", dtypes=FLOAT, static="chunks need not divide"),
    Row(
        ("aten::meshgrid", "aten::meshgrid.indexing", "aten::cartesian_prod"),
        name="grids",
        cases=(Case(grids, floats(3), floats(4)), Case(grids, integers(2), integers(3))),
    ),
    Row(
        "aten::repeat_interleave.self_int",
        cases=(Case(interleaved, floats(3, 4)), Case(interleaved, bools(3, 4))),
    ),
    Row(
        "aten::repeat_interleave.self_Tensor",
        cases=(
            Case(lambda x, n: aten.repeat_interleave.self_Tensor(x, n, 1), floats(3, 4), COUNTS),
            Case(lambda x, n: aten.repeat_interleave.self_Tensor(x, n), floats(4), COUNTS.int()),
            Case(lambda x, n: aten.repeat_interleave.self_Tensor(x, n, 0), floats(3), COUNTS[:1]),
            Case(
                lambda x, n: aten.repeat_interleave.self_Tensor(x, n, 1, output_size=6),
                floats(3, 4),
                COUNTS,
            ),
        ),
    ),
    Row("aten::repeat_interleave.Tensor", cases=(Case(aten.repeat_interleave.Tensor, COUNTS),)),
]
