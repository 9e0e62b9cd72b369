"""Rows of csrc/ops/linalg/einsum.cpp."""

import torch

from ops.row import Case, Row, floats


def einsum(equation: str, *tensors: torch.Tensor) -> Case:
    return Case(lambda *inputs: torch.ops.aten.einsum(equation, inputs), *tensors)


ROWS = [
    Row(
        "aten::einsum",
        opinfo="einsum",
        cases=(
            einsum("...ij,...jk->...ik", floats(2, 3, 4), floats(4, 5)),
            einsum("...ij,jk", floats(2, 3, 4), floats(4, 5)),
            einsum("bA,Ac->cb", floats(2, 3), floats(3, 4)),
            einsum("ii->i", floats(3, 3)),
            einsum("iij->j", floats(3, 3, 2)),
            einsum("i,i->", floats(3), floats(3)),
            einsum("i...->...", floats(3, 2, 4)),
            einsum("...i->i", floats(3, 2, 4)),
            einsum("i,j,k", floats(2), floats(3), floats(4)),
        ),
    ),
]
