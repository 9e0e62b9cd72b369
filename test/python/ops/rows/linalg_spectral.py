"""Rows of csrc/ops/linalg/spectral.cpp. The sign of vectors is arbitrary, and so is their basis for
equal values, so the rows compare products that do not depend on the choice."""

import torch

from ops.row import Case, Row, floats

aten = torch.ops.aten


def eighs(x: torch.Tensor) -> list[torch.Tensor]:
    """Returns the values and the rebuilt matrix, from one triangle."""
    found = []
    a = x @ x.mT - torch.triu(x @ x.mT, 1) / 2
    for uplo in ("L", "U"):
        for values, vectors in (aten.linalg_eigh(a, uplo), aten._linalg_eigh(a, uplo)):
            found += [values, (vectors * values.unsqueeze(-2)) @ vectors.mT, vectors.mT @ vectors]
        found += [aten.linalg_eigvalsh(a, uplo), aten._linalg_eigh(a, uplo, False)[0]]
    return found


def made_again(u: torch.Tensor, s: torch.Tensor, vh: torch.Tensor) -> list[torch.Tensor]:
    """Returns results that do not depend on the choice of vectors."""
    k = s.shape[-1]
    return [s, (u[..., :k] * s.unsqueeze(-2)) @ vh[..., :k, :], u.mT @ u, vh @ vh.mT]


def svds(a: torch.Tensor) -> list[torch.Tensor]:
    """Reduced and full decompositions, by each name."""
    found = [aten.linalg_svdvals(a), aten._linalg_svd(a, False, False)[1]]
    for full in (False, True):
        u, s, v = aten.svd(a, not full)
        found += made_again(*aten.linalg_svd(a, full))
        found += made_again(*aten._linalg_svd(a, full))
        found += made_again(u, s, v.mT)
    return [*found, *aten.svd(a, True, False)]


def svd_of_rows(a: torch.Tensor) -> list[torch.Tensor]:
    """Avoids slices, which would specialize the sizes."""
    found = [aten.linalg_svdvals(a)]
    for x in (a, a.mT):
        u, s, vh = aten.linalg_svd(x, False)
        whole_u, _, whole_vh = aten.linalg_svd(x, True)
        found += [s, (u * s) @ vh, u.mT @ u, whole_u @ whole_u.mT, whole_vh @ whole_vh.mT]
    return found


# Matrices of rank 2, of rank 0, and with equal singular values.
OF_LOW_RANK = floats(3, 5, 2) @ floats(3, 2, 4, seed=1)
WITH_TIES = torch.stack([torch.eye(4), torch.zeros(4, 4), torch.eye(4).flip(0), torch.ones(4, 4)])


def ranks(a: torch.Tensor) -> list[torch.Tensor]:
    """Every overload."""
    square = a.mT @ a
    tolerance = a[..., 0, 0].abs()
    return [
        aten.linalg_matrix_rank(a, 0.5),
        aten.linalg_matrix_rank(square, 0.5, True),
        aten.linalg_matrix_rank.tol_tensor(a, tolerance),
        aten.linalg_matrix_rank.atol_rtol_float(a),
        aten.linalg_matrix_rank.atol_rtol_float(a, atol=1.0),
        aten.linalg_matrix_rank.atol_rtol_float(a, rtol=0.3),
        aten.linalg_matrix_rank.atol_rtol_float(a, atol=0.2, rtol=0.1, hermitian=False),
        aten.linalg_matrix_rank.atol_rtol_tensor(a),
        aten.linalg_matrix_rank.atol_rtol_tensor(a, atol=tolerance),
        aten.linalg_matrix_rank.atol_rtol_tensor(a, rtol=tolerance / 4),
        aten.linalg_matrix_rank.atol_rtol_tensor(a, atol=tolerance * 0),
    ]


def pinvs(a: torch.Tensor) -> list[torch.Tensor]:
    """Every overload."""
    square = a.mT @ a
    tolerance = a[..., 0, 0].abs() / 4
    return [
        aten.linalg_pinv(a, 0.01),
        aten.linalg_pinv(square, 0.01, True),
        aten.linalg_pinv.rcond_tensor(a, tolerance),
        aten.linalg_pinv.atol_rtol_float(a),
        aten.linalg_pinv.atol_rtol_float(a, atol=1.0),
        aten.linalg_pinv.atol_rtol_float(a, rtol=0.3),
        aten.linalg_pinv.atol_rtol_tensor(a),
        aten.linalg_pinv.atol_rtol_tensor(a, atol=tolerance),
        aten.linalg_pinv.atol_rtol_tensor(a, atol=tolerance, rtol=tolerance),
        aten.pinverse(a, 0.05),
    ]


def least_squares(a: torch.Tensor) -> list[torch.Tensor]:
    """Matrices of full rank and of less, several columns and vectors, each driver.

    PyTorch's gelsy finds other ranks and solutions from call to call if the rank is not full.
    """
    found = []
    for matrix in (a, a.mT):
        columns = matrix[..., :2] * 2 + 1
        found += torch.linalg.lstsq(matrix, columns)[:3]
        found += torch.linalg.lstsq(matrix, columns, rcond=1e-5)[:3]
        if matrix.dim() == 2:
            found += torch.linalg.lstsq(matrix, columns, rcond=0.4, driver="gelsd")
            found += torch.linalg.lstsq(matrix, columns[:, 0])[:3]
    twice = torch.cat([a, a], -1)
    found += torch.linalg.lstsq(twice, a[..., :2] + 1, driver="gelss")
    found += torch.linalg.lstsq(a, a[..., :1] + 1, driver="gels")
    found += torch.linalg.lstsq(a.mT, a.mT[..., :1] + 1, driver="gelsd")
    return found


def conditions(a: torch.Tensor) -> list[torch.Tensor]:
    """Every order."""
    return [
        aten.linalg_cond(a),
        *(aten.linalg_cond(a, p) for p in (1, -1, 2, -2, torch.inf, -torch.inf)),
        *(aten.linalg_cond.p_str(a, p) for p in ("fro", "nuc")),
    ]


ROWS = [
    Row("aten::linalg_eigvalsh", opinfo="linalg.eigvalsh"),
    Row(
        ("aten::linalg_eigh", "aten::linalg_eigvalsh", "aten::_linalg_eigh"),
        name="eighs",
        cases=(
            Case(eighs, floats(5, 3)),
            Case(eighs, floats(2, 6, 6)),
            Case(eighs, WITH_TIES),
            Case(eighs, floats(3, 1, 1)),
            Case(eighs, torch.zeros(2, 0, 0)),
            Case(eighs, torch.zeros(1, 1, 0, 0)),
            Case(eighs, torch.zeros(0, 3, 3)),
            Case(lambda x: eighs(x.double()), floats(5, 5)),
        ),
    ),
    Row("aten::linalg_svdvals", opinfo="linalg.svdvals"),
    Row(
        ("aten::linalg_svd", "aten::_linalg_svd", "aten::svd", "aten::linalg_svdvals"),
        name="svds",
        cases=(
            Case(svds, floats(5, 3)),
            Case(svds, floats(2, 3, 5)),
            Case(svds, OF_LOW_RANK),
            Case(svds, WITH_TIES),
            Case(svds, floats(3, 1, 1)),
            Case(svds, torch.zeros(2, 3, 0)),
            Case(svds, torch.zeros(0, 3, 2)),
            Case(lambda x: svds(x.double()), floats(5, 5)),
        ),
        static="slices of factors take the sizes to be constant",
    ),
    *(
        Row(
            "aten::linalg_svd",
            name=f"svd of a {form} matrix of unknown sizes",
            cases=(Case(svd_of_rows, x),),
        )
        for form, x in (("tall", floats(5, 3)), ("wide", floats(3, 5)), ("square", floats(3, 3)))
    ),
    Row("aten::linalg_matrix_rank.atol_rtol_tensor", opinfo="linalg.matrix_rank"),
    Row(
        tuple(
            f"aten::linalg_matrix_rank{form}"
            for form in ("", ".tol_tensor", ".atol_rtol_float", ".atol_rtol_tensor")
        ),
        name="ranks",
        cases=(Case(ranks, OF_LOW_RANK), Case(ranks, floats(4, 3)), Case(ranks, floats(2, 3, 4))),
    ),
    Row(
        "aten::linalg_lstsq",
        opinfo="linalg.lstsq",
        pick=lambda samples: samples[:12],  # without batches
        static="the sizes decide which results there are",
        native_only="PyTorch takes the sizes of the residuals to depend on data",
        cases=(Case(least_squares, floats(4, 3)), Case(least_squares, floats(2, 4, 3))),
    ),
    Row("aten::linalg_pinv.atol_rtol_tensor", opinfo="linalg.pinv"),
    Row(
        "aten::linalg_pinv.atol_rtol_tensor",
        name="pinv of symmetric matrices",
        opinfo="linalg.pinv",
        variant="hermitian",
    ),
    Row(
        (
            *(
                f"aten::linalg_pinv{form}"
                for form in ("", ".rcond_tensor", ".atol_rtol_float", ".atol_rtol_tensor")
            ),
            "aten::pinverse",
        ),
        name="pinvs",
        cases=(
            Case(pinvs, floats(5, 3)),
            Case(pinvs, floats(2, 3, 4)),
            Case(lambda x: aten.pinverse(x.mT), floats(5, 3)),
            Case(aten.pinverse, torch.zeros(2, 0, 3)),
        ),
    ),
    Row("aten::linalg_cond", opinfo="linalg.cond"),
    Row(
        ("aten::linalg_cond", "aten::linalg_cond.p_str"),
        name="conditions",
        cases=(
            Case(conditions, floats(3, 4, 4)),
            Case(conditions, torch.zeros(2, 0, 0)),
            Case(lambda a: aten.linalg_cond(a, 1), torch.zeros(2, 3, 3)),
            Case(aten.linalg_cond, floats(5, 3)),
        ),
        static="capture cannot count the elements of a size that is not known",
    ),
]
