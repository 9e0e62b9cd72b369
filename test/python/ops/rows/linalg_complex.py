"""Rows of csrc/ops/linalg/complex.cpp. Inputs are the real and imaginary parts of matrices."""

import math

import torch

from ops.row import Case, Row, floats

aten = torch.ops.aten

ORDERS = (1, -1, 2, -2, math.inf, -math.inf)


def z(x: torch.Tensor) -> torch.Tensor:
    """Builds the complex matrix inside the program."""
    return torch.view_as_complex(x)


def pairs(results: list[torch.Tensor]) -> list[torch.Tensor]:
    """Returns complex results as their parts."""
    return [torch.view_as_real(x.resolve_conj()) if x.is_complex() else x for x in results]


def norms(x: torch.Tensor) -> list[torch.Tensor]:
    """Norms of vectors and matrices, for every order."""
    a = z(x)
    return [
        *(aten.linalg_vector_norm(a, p, [-1]) for p in (0, 1, 2, 3, math.inf)),
        aten.linalg_vector_norm(a, 2, None, True, dtype=torch.complex128),
        aten.norm.Scalar(a, 2),
        aten.norm.ScalarOpt_dim(a, 1, [0]),
        *(aten.linalg_matrix_norm(a, p) for p in ORDERS),
        *(aten.linalg_matrix_norm.str_ord(a, p) for p in ("fro", "nuc")),
        *(aten.linalg_norm(a[0], p) for p in ORDERS),
        aten.linalg_norm(a),
        aten.linalg_norm(a, 2, [1]),
        *(aten.linalg_norm.ord_str(a[0], p) for p in ("fro", "nuc")),
    ]


def functions(x: torch.Tensor) -> list[torch.Tensor]:
    """Inverses, powers, exponentials, determinants, singular values."""
    a = z(x)
    return pairs(
        [
            aten.linalg_inv(a),
            aten.inverse(a),
            aten.linalg_matrix_power(a, 3),
            aten.matrix_power(a, -2),
            aten.linalg_matrix_exp(a),
            aten.matrix_exp(a),
            aten.linalg_det(a),
            aten.det(a),
            *aten.linalg_slogdet(a),
            *aten.slogdet(a),
            aten.linalg_svdvals(a),
        ]
    )


def determinants(x: torch.Tensor) -> list[torch.Tensor]:
    return [aten.linalg_det(z(x)), *aten.linalg_slogdet(z(x))]


def solutions(x: torch.Tensor, y: torch.Tensor) -> list[torch.Tensor]:
    """Solutions: both sides, vectors, and triangular systems."""
    a, b = z(x), z(y)
    found = [
        aten.linalg_solve(a, b.mT),
        aten.linalg_solve(a, b, left=False),
        aten.linalg_solve(a, b[..., 0, :]),
    ]
    for upper in (False, True):
        for unit in (False, True):
            found += [
                aten.linalg_solve_triangular(a, b.mT, upper=upper, unitriangular=unit),
                aten.linalg_solve_triangular(a, b, upper=upper, left=False, unitriangular=unit),
            ]
    return pairs(found)


def hermitians(x: torch.Tensor) -> list[torch.Tensor]:
    """Triangular factors; eigenvalues; the matrix rebuilt from its eigenvectors."""
    a = z(x) @ z(x).mH + torch.eye(x.shape[-3])
    found = [aten.linalg_cholesky(a), aten.linalg_cholesky(a, upper=True), aten.cholesky(a)]
    for uplo in ("L", "U"):
        values, vectors = aten.linalg_eigh(a, uplo)
        found += [
            aten.linalg_eigvalsh(a, uplo),
            values,
            (vectors * values.unsqueeze(-2)) @ vectors.mH,
            vectors.mH @ vectors,
        ]
    return pairs(found)


ROWS = [
    Row(
        tuple(
            f"aten::{name}@complex"
            for name in (
                "linalg_norm",
                "linalg_norm.ord_str",
                "linalg_matrix_norm",
                "linalg_matrix_norm.str_ord",
            )
        ),
        name="norms of complex matrices",
        cases=(Case(norms, floats(3, 4, 2, 2)),),
        static="capture takes the sizes of matrix norms to be constant",
    ),
    Row(
        tuple(
            f"aten::{name}@complex"
            for name in (
                "linalg_inv",
                "inverse",
                "linalg_matrix_power",
                "matrix_power",
                "linalg_matrix_exp",
                "matrix_exp",
                "linalg_det",
                "det",
                "linalg_slogdet",
                "slogdet",
                "linalg_svdvals",
            )
        ),
        name="functions of complex matrices",
        cases=(
            Case(functions, floats(3, 4, 4, 2)),
            Case(functions, floats(2, 1, 1, 2)),
            Case(determinants, floats(40, 5, 5, 2, dtype=torch.float64)),
            Case(determinants, torch.eye(3)[[1, 2, 0]].flip(0)[..., None] * torch.tensor([0, 2.0])),
            Case(determinants, torch.ones(3, 3, 2)),
            Case(determinants, floats(2, 0, 0, 2)),
        ),
    ),
    Row(
        ("aten::linalg_solve@complex", "aten::linalg_solve_triangular@complex"),
        name="solutions of complex systems",
        cases=(Case(solutions, floats(3, 4, 4, 2), floats(3, 2, 4, 2, seed=1)),),
    ),
    Row(
        (
            "aten::linalg_cholesky@complex",
            "aten::cholesky@complex",
            "aten::linalg_eigh@complex",
            "aten::linalg_eigvalsh@complex",
        ),
        name="Hermitian matrices",
        cases=(Case(hermitians, floats(3, 4, 5, 2)), Case(hermitians, floats(4, 3, 2))),
    ),
]
