"""Rows of csrc/ops/linalg/norm.cpp."""

import math

import torch

from ops.row import Case, Row, at, floats

aten = torch.ops.aten

NAN = math.nan
INF = math.inf
WITH_NAN = torch.tensor([[1.0, NAN, 3.0, NAN], [INF, 2.0, NAN, 1.0], [4.0, 5.0, 5.0, 0.0]])
# torch.export makes the sizes constant.
SPECIALIZED = "capture takes the sizes to be constant"
ORDERS = (1, -1, 2, -2, INF, -INF)


def norms(x: torch.Tensor) -> list[torch.Tensor]:
    """Every order, over one axis and over all axes."""
    return [
        *(aten.linalg_vector_norm(x, p, [-1]) for p in (INF, -INF, 0, 1, 2, 3, 0.5, -1)),
        aten.linalg_vector_norm(x, 2, None, True),
        aten.linalg_vector_norm(x, 2, [0], dtype=torch.float64),
        aten.norm.Scalar(x, 3),
        aten.norm.ScalarOpt_dim(x, None, [1], True),
        aten.norm.ScalarOpt_dim_dtype(x, 1, [1], False, dtype=torch.float64),
        aten.norm.ScalarOpt_dtype(x, 2, dtype=torch.float64),
        aten.frobenius_norm.dim(x, [0, 1], True),
        aten.linalg__powsum(x, 3, [1], True),
    ]


def matrix_norms(x: torch.Tensor) -> list[torch.Tensor]:
    """Every order, over the last and other axes, and in another dtype."""
    return [
        *(aten.linalg_matrix_norm(x, p) for p in ORDERS),
        *(aten.linalg_matrix_norm(x, p, [0, -2], True) for p in ORDERS),
        *(aten.linalg_matrix_norm.str_ord(x, p, [-1, 0], True) for p in ("fro", "nuc")),
        aten.linalg_matrix_norm(x, 2, dtype=torch.float64),
        aten.linalg_matrix_norm(x, 1, dtype=torch.float64),
        aten.linalg_norm(x, None, None, True),
        aten.linalg_norm(x, 3, [1], True),
        aten.linalg_norm(x, -2, [2, 0]),
        aten.linalg_norm.ord_str(x, "nuc", [1, 2]),
        aten.linalg_norm.ord_str(x[0], "fro", dtype=torch.float64),
        aten.linalg_norm(x[0], INF),
        aten.linalg_norm(x[0, 0], INF),
        aten.nuclear_norm(x[0], True),
        aten.nuclear_norm.dim(x, [0, 2]),
    ]


def matrix_norms_of_unknown_sizes(x: torch.Tensor) -> list[torch.Tensor]:
    """Matrix norms with the first axis as rows or columns."""
    return [
        *(aten.linalg_matrix_norm(x, p, [0, -2], True) for p in (1, -1)),
        aten.linalg_matrix_norm.str_ord(x, "nuc", [1, 0]),
        aten.nuclear_norm.dim(x, [0, 2]),
    ]


def of_nothing(x: torch.Tensor) -> list[torch.Tensor]:
    """The norm of a matrix without columns is 0."""
    return [aten.linalg_matrix_norm(x, p) for p in (1, 2, INF)] + [aten.linalg_matrix_norm(x, -INF)]


def distances(x: torch.Tensor, y: torch.Tensor) -> list[torch.Tensor]:
    """Distances of each order, with broadcasting."""
    return [aten.dist(x, y, p) for p in (0, 1, 2, 3.5, INF, -INF)]


def weight_norms(v: torch.Tensor) -> list[torch.Tensor]:
    """Norms along each axis and over all axes."""
    found = []
    for dim in (0, 1, -1):
        g = aten.norm_except_dim(v, 2, dim)
        found += [g, aten._weight_norm(v, g + 1, dim), aten.norm_except_dim(v, 1, dim)]
    found += aten._weight_norm_interface(v, aten.norm_except_dim(v, 2, 0) + 1, 0)
    return found


ROWS = [
    Row("aten::linalg_vector_norm", opinfo="linalg.vector_norm"),
    Row(
        (
            *(
                f"aten::norm.{form}"
                for form in ("Scalar", "ScalarOpt_dim", "ScalarOpt_dim_dtype", "ScalarOpt_dtype")
            ),
            "aten::frobenius_norm.dim",
            "aten::linalg__powsum",
        ),
        name="norms",
        cases=(Case(norms, floats(3, 4)), Case(norms, WITH_NAN)),
    ),
    Row("aten::linalg_norm", opinfo="linalg.norm"),
    Row(
        "aten::linalg_matrix_norm", opinfo="linalg.matrix_norm", pick=at(-2, -1), static=SPECIALIZED
    ),
    Row(
        (
            "aten::linalg_matrix_norm",
            "aten::linalg_matrix_norm.str_ord",
            "aten::linalg_norm",
            "aten::linalg_norm.ord_str",
            "aten::nuclear_norm",
            "aten::nuclear_norm.dim",
        ),
        name="matrix norms",
        cases=(
            Case(matrix_norms, floats(3, 4, 2)),
            Case(matrix_norms, floats(2, 1, 5)),
            Case(of_nothing, torch.zeros(2, 3, 0)),
        ),
        static=SPECIALIZED,
    ),
    Row(
        ("aten::linalg_matrix_norm", "aten::linalg_matrix_norm.str_ord", "aten::nuclear_norm.dim"),
        name="matrix norms of unknown sizes",
        cases=(Case(matrix_norms_of_unknown_sizes, floats(3, 4, 2)),),
    ),
    Row("aten::dist", opinfo="dist", cases=(Case(distances, floats(3, 4), floats(4, seed=1)),)),
    Row(
        "aten::renorm",
        opinfo="renorm",
        cases=(Case(lambda x: aten.renorm(x, 1, 0, 2.0), floats(3, 4)),),
    ),
    Row(
        ("aten::norm_except_dim", "aten::_weight_norm", "aten::_weight_norm_interface"),
        name="weight norms",
        cases=(
            Case(weight_norms, floats(3, 4, 2)),
            Case(weight_norms, floats(3, 4, 2).bfloat16()),
        ),
        static=SPECIALIZED,
    ),
    Row(
        "aten::_weight_norm",
        cases=(Case(lambda v, g: aten._weight_norm(v, g, 0), floats(3, 4), floats(3, 1, seed=1)),),
    ),
]
