"""Rows of csrc/ops/linalg/ldl.cpp."""

import torch

from ops.row import Case, Row, floats

aten = torch.ops.aten


def ldls(x: torch.Tensor) -> list[torch.Tensor]:
    """Factors of the lower triangle, and solutions with as many columns as x."""
    ld, pivots = aten.linalg_ldl_factor(x)
    return [
        ld,
        pivots,
        *aten.linalg_ldl_factor_ex(x),
        aten.linalg_ldl_solve(ld, pivots, x),
        aten.linalg_ldl_solve(ld, pivots, x[..., :1]),
    ]


# Blocks of two rows: where the diagonal is small.
INDEFINITE = floats(4, 7, 7) * (1 - torch.eye(7) * torch.tensor([0, 0.5, 0.9, 1])[:, None, None])
WITH_ZERO_COLUMN = torch.tensor([[1.0, 2, 0], [2, 1, 0], [0, 0, 0]]).repeat(2, 1, 1)

SQUARE = "all samples with a batch are below; of a square matrix both sizes would grow"

ROWS = [
    Row("aten::linalg_ldl_factor", opinfo="linalg.ldl_factor", static=SQUARE),
    Row("aten::linalg_ldl_factor_ex", opinfo="linalg.ldl_factor_ex", static=SQUARE),
    Row("aten::linalg_ldl_solve", opinfo="linalg.ldl_solve", static="the pivots would grow too"),
    Row(
        ("aten::linalg_ldl_factor", "aten::linalg_ldl_factor_ex", "aten::linalg_ldl_solve"),
        name="ldls",
        cases=(
            Case(ldls, INDEFINITE),
            Case(ldls, floats(2, 1, 1)),
            Case(ldls, torch.zeros(2, 0, 0)),
            Case(ldls, torch.zeros(0, 3, 3)),
            Case(lambda x: ldls(x @ x.mT - torch.eye(x.shape[0])), floats(6, 2)),
            Case(aten.linalg_ldl_factor_ex, WITH_ZERO_COLUMN),
        ),
    ),
]
