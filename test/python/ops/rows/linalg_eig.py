"""Rows of csrc/ops/linalg/eig.cpp. The order of eigenvalues and the phase of vectors are arbitrary,
so the rows compare results that do not depend on them."""

import torch

from ops.row import Case, Row, floats

aten = torch.ops.aten


def unordered(w: torch.Tensor) -> list[torch.Tensor]:
    """Returns the sorted parts and the sums of powers."""
    powers = [w, w * w, w * w * w]
    return [
        w.real.sort(-1).values,
        w.imag.sort(-1).values,
        *(torch.view_as_real(p.sum(-1)) for p in powers),
    ]


def eigvals(a: torch.Tensor) -> list[torch.Tensor]:
    """Calls the operator by both names."""
    return [*unordered(aten.linalg_eigvals(a)), *unordered(aten._linalg_eigvals(a))]


def eig(a: torch.Tensor) -> list[torch.Tensor]:
    """Returns A V - V diag(w), which is zero, and the norms of the vectors."""
    w, v = aten.linalg_eig(a)
    p, q = a.real, a.imag if a.is_complex() else torch.zeros_like(a)
    x, y = v.real, v.imag
    r, i = w.real.unsqueeze(-2), w.imag.unsqueeze(-2)
    return [
        *unordered(w),
        p @ x - q @ y - (x * r - y * i),
        p @ y + q @ x - (x * i + y * r),
        (x * x + y * y).sum(-2),
    ]


def grown(x: torch.Tensor) -> torch.Tensor:
    """Returns an asymmetric square matrix with as many rows as x."""
    return x @ x.mT + torch.triu(x @ x.mT, 1)


def of_pairs(x: torch.Tensor) -> list[torch.Tensor]:
    """Tests a complex matrix, given by its parts."""
    return eig(torch.view_as_complex(x))


# Cycles, which need an exceptional shift. Defective matrices are left out: they do not have enough
# vectors.
CYCLES = torch.stack([torch.eye(4).roll(1, 0), torch.eye(4), torch.eye(4).flip(0)])

ROWS = [
    Row(
        ("aten::linalg_eigvals@complex", "aten::_linalg_eigvals@complex"),
        name="eigvals",
        cases=(
            Case(eigvals, floats(3, 5, 5)),
            Case(eigvals, torch.triu(floats(3, 4, 4))),
            Case(eigvals, CYCLES),
            Case(eigvals, torch.zeros(2, 0, 0)),
            Case(eigvals, torch.zeros(0, 3, 3)),
            Case(lambda x: eigvals(x.double()), floats(12, 12)),
            Case(lambda x: eigvals(grown(x)), floats(4, 4)),
        ),
    ),
    Row(
        "aten::linalg_eig@complex",
        name="eig",
        cases=(
            Case(eig, floats(3, 5, 5)),
            Case(eig, floats(3, 1, 1)),
            Case(eig, CYCLES),
            Case(eig, floats(4, 4) + floats(4, 4).mT),
            Case(eig, torch.zeros(2, 0, 0)),
            Case(of_pairs, floats(2, 4, 4, 2)),
            Case(lambda x: eig(grown(x)), floats(4, 4)),
        ),
    ),
]
