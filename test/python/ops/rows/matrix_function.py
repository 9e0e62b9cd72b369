"""Rows of csrc/ops/linalg/matrix_function.cpp."""

import torch

from ops.row import Case, Row, floats

aten = torch.ops.aten


def powers(a: torch.Tensor) -> list[torch.Tensor]:
    """Calls both names, also with negative exponents."""
    found = [aten.linalg_matrix_power(a, n) for n in (0, 1, 2, 5, 7, -1, -3)]
    return [*found, aten.matrix_power(a, 3)]


def exponentials(a: torch.Tensor) -> list[torch.Tensor]:
    """Calls both names, with small and large norms in one batch."""
    return [aten.linalg_matrix_exp(a), aten.matrix_exp(a.double())]


NORMS = torch.tensor([0.0, 1e-4, 1.0, 3.0]).reshape(4, 1, 1)

ROWS = [
    Row("aten::linalg_matrix_power", opinfo="linalg.matrix_power"),
    Row(
        ("aten::linalg_matrix_power", "aten::matrix_power"),
        name="powers",
        cases=(Case(powers, floats(2, 3, 3)), Case(powers, torch.zeros(2, 0, 0))),
    ),
    Row(
        ("aten::linalg_matrix_exp", "aten::matrix_exp"),
        name="exponentials",
        cases=(
            Case(exponentials, floats(4, 3, 3) * NORMS),
            Case(exponentials, torch.zeros(2, 0, 0)),
            Case(exponentials, torch.zeros(0, 3, 3)),
            Case(exponentials, floats(1, 1)),
            Case(lambda x: aten.linalg_matrix_exp(x @ x.mT), floats(4, 2)),
        ),
    ),
]
