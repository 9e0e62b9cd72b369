"""Rows of csrc/ops/linalg/solve.cpp."""

import torch

from ops.row import Case, Row, floats

aten = torch.ops.aten


def grown_square(x: torch.Tensor) -> torch.Tensor:
    """Returns a well-conditioned square matrix with as many rows as x."""
    return x @ x.mT + 3 * torch.eye(x.shape[0]) + torch.triu(x @ x.mT, 1)


def determinants(a: torch.Tensor) -> list[torch.Tensor]:
    """By each name."""
    return [
        aten.linalg_det(a),
        aten.det(a.double()),
        aten._linalg_det(a)[0],
        *aten.linalg_slogdet(a),
        *aten.slogdet(a),
        *aten._linalg_slogdet(a)[:2],
        aten.logdet(a),
    ]


SINGULAR = torch.tensor([[[1.0, 2.0], [2.0, 4.0]], [[0.0, 1.0], [1.0, 0.0]]])


def inverses(a: torch.Tensor) -> list[torch.Tensor]:
    """By each name."""
    return [aten.linalg_inv(a), aten.inverse(a), *aten.linalg_inv_ex(a)]


def solutions(a: torch.Tensor, b: torch.Tensor) -> list[torch.Tensor]:
    """Matrices and vectors, on both sides."""
    result, _, _, info = aten._linalg_solve_ex(a, b, left=False)
    return [
        aten.linalg_solve(a, b, left=False),
        aten.linalg_solve(a, b[..., 0, :]),
        *aten.linalg_solve_ex(a[:1], b.mT),
        result,
        info,
    ]


def of_triangles(a: torch.Tensor, b: torch.Tensor) -> list[torch.Tensor]:
    """Each triangle on each side, with broadcast batches."""
    found = []
    for upper in (False, True):
        for unit in (False, True):
            for flag in (False, True):
                x = b.mT if flag else b
                found += [
                    aten.linalg_solve_triangular(a, x, upper=upper, left=flag, unitriangular=unit),
                    *aten.triangular_solve(b.mT, a, upper, flag, unit),
                ]
    return found


def of_factors(a: torch.Tensor, b: torch.Tensor) -> list[torch.Tensor]:
    """A system and its transpose, on both sides."""
    lu, pivots = aten.linalg_lu_factor(a)
    return [
        aten.lu_solve(b.mT, lu, pivots),
        *(
            aten.linalg_lu_solve(lu, pivots, b.mT if left else b, left=left, adjoint=adjoint)
            for left in (False, True)
            for adjoint in (False, True)
        ),
    ]


def tensor_solutions(a: torch.Tensor, b: torch.Tensor) -> list[torch.Tensor]:
    """Inverses and solutions of 4-D tensors."""
    return [
        aten.linalg_tensorinv(a),
        aten.linalg_tensorsolve(a, b),
        aten.linalg_tensorsolve(a.permute(0, 2, 1, 3), b, [1, 3]),
    ]


# A row with cases tests a dynamic batch.
PIVOTS = "the pivots, which have fewer dimensions, would grow too"

ROWS = [
    Row(
        (
            "aten::linalg_det",
            "aten::det",
            "aten::_linalg_det",
            "aten::linalg_slogdet",
            "aten::slogdet",
            "aten::_linalg_slogdet",
            "aten::logdet",
        ),
        name="determinants",
        cases=(
            Case(determinants, floats(3, 4, 4)),
            Case(determinants, floats(2, 1, 1)),
            Case(determinants, torch.zeros(2, 0, 0)),
            Case(lambda x: determinants(grown_square(x)), floats(4, 2)),
            # For a nearly singular matrix, rounding determines the sign.
            Case(lambda a: aten.linalg_slogdet(a)[1], SINGULAR),
        ),
    ),
    Row("aten::linalg_det", opinfo="linalg.det"),
    Row("aten::linalg_slogdet", opinfo="linalg.slogdet"),
    Row("aten::logdet", opinfo="logdet"),
    Row(
        ("aten::linalg_inv", "aten::inverse", "aten::linalg_inv_ex"),
        name="inverses",
        cases=(
            Case(lambda x: inverses(grown_square(x)), floats(4, 2)),
            Case(inverses, floats(2, 1, 1)),
            Case(inverses, torch.zeros(2, 0, 0)),
            Case(lambda a: aten.linalg_inv_ex(a)[1], SINGULAR),
        ),
    ),
    Row("aten::linalg_inv", opinfo="linalg.inv"),
    Row("aten::linalg_inv_ex", opinfo="linalg.inv_ex"),
    Row("aten::linalg_solve", opinfo="linalg.solve"),
    Row("aten::linalg_solve_ex", opinfo="linalg.solve_ex"),
    Row(
        ("aten::linalg_solve", "aten::linalg_solve_ex", "aten::_linalg_solve_ex"),
        name="solutions",
        cases=(
            Case(solutions, floats(3, 4, 4), floats(3, 2, 4, seed=1)),
            Case(lambda x: aten.linalg_solve(grown_square(x), x), floats(4, 2)),
            Case(lambda x: aten.linalg_solve(grown_square(x), x[:, 0]), floats(4, 2)),
            Case(
                lambda a, b: aten.linalg_solve_ex(a, b)[1],
                SINGULAR,
                torch.ones(3, 1, 2, 2),
            ),
        ),
    ),
    Row("aten::linalg_solve_triangular", opinfo="linalg.solve_triangular"),
    Row("aten::triangular_solve", opinfo="triangular_solve"),
    Row(
        ("aten::linalg_solve_triangular", "aten::triangular_solve"),
        name="solutions of triangles",
        cases=(
            Case(of_triangles, floats(3, 4, 4), floats(3, 2, 4, seed=1)),
            Case(of_triangles, floats(4, 4), floats(3, 2, 4, seed=1)),
            Case(
                lambda x: aten.linalg_solve_triangular(grown_square(x), x, upper=True),
                floats(4, 2),
            ),
        ),
    ),
    Row("aten::lu_solve", opinfo="lu_solve", static=PIVOTS),
    Row("aten::linalg_lu_solve", opinfo="linalg.lu_solve", static=PIVOTS),
    Row(
        ("aten::lu_solve", "aten::linalg_lu_solve"),
        name="solutions of factors",
        cases=(
            Case(of_factors, floats(3, 4, 4), floats(3, 2, 4, seed=1)),
            Case(of_factors, floats(4, 4), floats(3, 2, 4, seed=1)),
        ),
    ),
    Row(
        "aten::linalg_tensorinv",
        opinfo="linalg.tensorinv",
        static="the product of some sizes is that of the others",
    ),
    Row(
        ("aten::linalg_tensorinv", "aten::linalg_tensorsolve"),
        name="tensor solutions",
        cases=(Case(tensor_solutions, floats(2, 3, 3, 2), floats(2, 3, seed=1)),),
        static="the product of some sizes is that of the others",
    ),
    Row(
        "aten::linalg_tensorsolve",
        opinfo="linalg.tensorsolve",
        static="the product of some sizes is that of the others",
    ),
]
