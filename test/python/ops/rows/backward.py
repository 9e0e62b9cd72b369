"""Rows of csrc/ops/nn/backward.cpp."""

import torch
from torch.nn import functional as F

from ops.row import Case, Row, bools, floats

aten = torch.ops.aten


def softmax_case(name: str, dim: int, *shape: int) -> Case:
    backward = getattr(aten, f"{name}_backward_data")
    output = getattr(aten, name)(floats(*shape, seed=1), dim, False)
    return Case(lambda g, y: backward(g, y, dim, g.dtype), floats(*shape), output)


def pool_case(image: torch.Tensor) -> Case:
    values, indices = F.max_pool2d(image, 3, 2, 1, return_indices=True)
    return Case(
        lambda g, x, i: aten.max_pool2d_with_indices_backward(
            g, x, [3, 3], [2, 2], [1, 1], [1, 1], False, i
        ),
        floats(*values.shape, seed=2),
        image,
        indices,
    )


ROWS = [
    *(
        Row(
            f"aten::{name}_backward_data",
            cases=(
                softmax_case(name, -1, 3, 4),
                softmax_case(name, 0, 3, 4),
                softmax_case(name, 0),
            ),
        )
        for name in ("_softmax", "_log_softmax")
    ),
    Row(
        "aten::native_dropout_backward",
        cases=(
            Case(lambda g, m: aten.native_dropout_backward(g, m, 2.0), floats(3, 4), bools(3, 4)),
        ),
    ),
    Row(
        "aten::max_pool2d_with_indices_backward",
        cases=(pool_case(floats(2, 3, 7, 6)), pool_case(floats(3, 7, 6))),
    ),
]
