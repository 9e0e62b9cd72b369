"""Rows of csrc/ops/linalg/factor.cpp."""

import torch

from ops.row import Case, Row, floats

aten = torch.ops.aten


def positive(x: torch.Tensor) -> torch.Tensor:
    """Returns a positive definite matrix with as many rows as x."""
    return x @ x.mT + torch.eye(x.shape[-2])


def choleskys(x: torch.Tensor) -> list[torch.Tensor]:
    """Reads each triangle; the other one must not matter."""
    a = positive(x)
    found = []
    for upper in (False, True):
        half = torch.triu(a) if upper else torch.tril(a)
        factor = aten.linalg_cholesky(half, upper=upper)
        found += [
            factor,
            aten.cholesky(a, upper),
            *aten.linalg_cholesky_ex(half, upper=upper),
            aten.cholesky_solve(x, factor, upper),
            aten.cholesky_inverse(factor, upper),
        ]
    return found


NOT_POSITIVE = torch.tensor([[[4.0, 2.0], [2.0, 1.0]], [[-1.0, 0], [0, 1]], [[1, 0], [0, 1]]])


def lus(a: torch.Tensor) -> list[torch.Tensor]:
    """Returns the factors from each operator name."""
    lu, pivots = aten.linalg_lu_factor(a)
    return [
        lu,
        pivots,
        *aten.linalg_lu(a),
        *aten.linalg_lu_factor_ex(a),
        *aten._lu_with_info(a),
        *aten.lu_unpack(lu, pivots),
        *aten.lu_unpack(lu, pivots, False),
        *aten.lu_unpack(lu, pivots, True, False),
    ]


WITH_ZERO_PIVOT = torch.tensor(
    [
        [[0.0, 2, 1], [0, 4, 3], [0, 1, 5]],
        [[1.0, 2, 3], [1, 2, 3], [2, 1, 1]],
        [[0, 0, 0], [0, 0, 0], [0, 0, 0]],
    ]
)


def qrs(a: torch.Tensor) -> list[torch.Tensor]:
    """Every mode."""
    return [
        *aten.linalg_qr(a),
        *aten.linalg_qr(a, "complete"),
        *aten.linalg_qr(a, "r"),
        *aten.qr(a),
        *aten.qr(a, False),
    ]


def reflections(a: torch.Tensor) -> list[torch.Tensor]:
    """Applies the reflectors of a tall matrix to other matrices."""
    q, tau = aten.geqrf(a)
    return [
        aten.linalg_householder_product(q, tau),
        aten.linalg_householder_product(q, tau[..., :1]),
        aten.orgqr(q, tau),
        *(aten.ormqr(q, tau, a, True, transpose) for transpose in (False, True)),
        *(aten.ormqr(q, tau, a.mT, False, transpose) for transpose in (False, True)),
    ]


NO_META_KERNEL = "capture knows the shapes of geqrf by running it"

ROWS = [
    Row("aten::linalg_cholesky", opinfo="linalg.cholesky"),
    Row("aten::linalg_cholesky_ex", opinfo="linalg.cholesky_ex"),
    Row("aten::cholesky", opinfo="cholesky"),
    Row("aten::cholesky_solve", opinfo="cholesky_solve"),
    Row("aten::cholesky_inverse", opinfo="cholesky_inverse"),
    Row(
        (
            "aten::linalg_cholesky",
            "aten::linalg_cholesky_ex",
            "aten::cholesky",
            "aten::cholesky_solve",
            "aten::cholesky_inverse",
        ),
        name="choleskys",
        cases=(
            Case(choleskys, floats(4, 3)),
            Case(choleskys, floats(2, 3, 1)),
            Case(choleskys, torch.zeros(2, 0, 3)),
            Case(lambda a: aten.linalg_cholesky_ex(a)[1], NOT_POSITIVE),
        ),
    ),
    Row(
        "aten::_cholesky_solve_helper",
        cases=(
            Case(
                lambda b, a: aten._cholesky_solve_helper(b, a, True),
                floats(3, 4, 2),
                floats(3, 4, 4, seed=1),
            ),
        ),
    ),
    Row("aten::_lu_with_info", opinfo="lu", static="a row twice makes the matrix singular"),
    Row("aten::linalg_lu", opinfo="linalg.lu"),
    Row("aten::linalg_lu_factor", opinfo="linalg.lu_factor"),
    Row("aten::linalg_lu_factor_ex", opinfo="linalg.lu_factor_ex"),
    Row(
        "aten::lu_unpack",
        opinfo="lu_unpack",
        static="the pivots, which have fewer dimensions, would grow too",
    ),
    Row(
        (
            "aten::linalg_lu",
            "aten::linalg_lu_factor",
            "aten::linalg_lu_factor_ex",
            "aten::_lu_with_info",
            "aten::lu_unpack",
        ),
        name="lus",
        cases=(
            Case(lus, floats(5, 3)),
            Case(lus, floats(2, 3, 5)),
            Case(aten.linalg_lu, WITH_ZERO_PIVOT),
            Case(aten.linalg_lu_factor_ex, WITH_ZERO_PIVOT),
            Case(lus, torch.zeros(0, 4, 3)),
            Case(lambda x: lus(x.mT), floats(5, 3)),
        ),
    ),
    Row("aten::linalg_qr", opinfo="linalg.qr"),
    Row("aten::qr", opinfo="qr"),
    Row(
        "aten::geqrf",
        opinfo="geqrf",
        cases=tuple(
            Case(aten.geqrf, x) for x in (floats(5, 3), floats(2, 3, 5), torch.zeros(2, 3, 3))
        ),
        static=NO_META_KERNEL,
    ),
    Row(
        ("aten::linalg_qr", "aten::qr"),
        name="qrs",
        cases=(
            Case(qrs, floats(5, 3)),
            Case(qrs, floats(2, 3, 5)),
            Case(qrs, torch.zeros(2, 3, 3)),
            Case(qrs, torch.eye(3)),
            Case(lambda x: qrs(x.mT), floats(5, 3)),
        ),
    ),
    Row("aten::linalg_householder_product", opinfo="linalg.householder_product"),
    Row("aten::ormqr", opinfo="ormqr"),
    Row(
        ("aten::linalg_householder_product", "aten::orgqr", "aten::ormqr"),
        name="reflections",
        cases=(Case(reflections, floats(5, 3)), Case(reflections, floats(2, 4, 4))),
        static=NO_META_KERNEL,
    ),
]
