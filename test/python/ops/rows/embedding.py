"""Rows of csrc/ops/nn/embedding.cpp."""

from typing import Any

import torch

from ops.row import Case, Row, floats, integers

aten = torch.ops.aten
TABLE, INDICES = floats(10, 3), integers(8, low=0, high=10)
OFFSETS, WEIGHTS = torch.tensor([0, 2, 2, 5]), floats(8, seed=1)


def bag(mode: int, **options: Any) -> Case:
    """Returns the bags; the other results are not computed."""
    return Case(
        lambda table, indices, offsets: aten.embedding_bag(
            table, indices, offsets, mode=mode, **options
        )[0],
        TABLE,
        INDICES,
        OFFSETS,
    )


def padded(operator: Any, mode: int, padding_idx: int, last: bool = False) -> Case:
    return Case(
        lambda table, indices, offsets: operator(
            table, indices, offsets, False, mode, False, None, last, padding_idx
        )[0],
        TABLE,
        INDICES,
        torch.tensor([0, 2, 2, 8]) if last else OFFSETS,
    )


ROWS = [
    Row(
        "aten::embedding",
        cases=(
            Case(aten.embedding, TABLE, integers(2, 4, low=0, high=10)),
            Case(lambda t, i: aten.embedding(t, i, 1), TABLE.half(), INDICES.int()),
        ),
    ),
    Row(
        "aten::embedding_bag",
        cases=(
            bag(0),
            bag(1),
            bag(2),
            Case(
                lambda t, i, o, w: aten.embedding_bag(t, i, o, False, 0, False, w, True)[0],
                TABLE,
                INDICES,
                torch.tensor([0, 2, 2, 8]),
                WEIGHTS,
            ),
        ),
    ),
    Row(
        "aten::embedding_bag.padding_idx",
        static="torch.export makes the table's size a constant",
        opinfo="nn.functional.embedding_bag",
        cases=tuple(padded(aten.embedding_bag.padding_idx, mode, -3) for mode in (0, 1, 2)),
    ),
    Row(
        ("aten::_embedding_bag", "aten::_embedding_bag_forward_only"),
        name="inner embedding_bag",
        cases=(
            padded(aten._embedding_bag, 1, 4, last=True),
            padded(aten._embedding_bag_forward_only, 2, -1),
        ),
    ),
    Row(
        "aten::embedding_renorm",
        cases=(
            Case(lambda t, i: aten.embedding_renorm(t, i, 1.0, 2.0), TABLE, INDICES[:4]),
            Case(lambda t, i: aten.embedding_renorm(t, i, 1.5, 1.0), TABLE, INDICES[:4]),
        ),
    ),
]
