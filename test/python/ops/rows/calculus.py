"""Rows of csrc/ops/math/calculus.cpp."""

import torch

from ops.row import Case, Row, floats

aten = torch.ops.aten
gradient = torch.gradient
X = floats(4, 5)
ROW_PLACES = torch.tensor([0.0, 0.5, 2.0, 3.0])
COLUMN_PLACES = torch.tensor([0.0, 1.0, 1.5, 4.0, 5.0])

ROWS = [
    Row(
        tuple(
            f"aten::gradient.{overload}"
            for overload in (
                *("scalarint", "scalararray", "array", "scalarrayint", "scalarrayarray"),
                *("tensorarrayint", "tensorarray"),
            )
        ),
        name="gradient",
        static="torch.export takes the sizes as constants",
        opinfo="gradient",
        cases=(
            Case(
                lambda x: [
                    *(*gradient(x), *gradient(x, edge_order=2), *gradient(x, spacing=2.0)),
                    *(*gradient(x, dim=1, spacing=0.5), *gradient(x, dim=-2, edge_order=2)),
                    *(*gradient(x, dim=(1, 0), spacing=2.0), *aten.gradient.array(x, dim=[1])),
                    *gradient(x, spacing=(2.0, 3)),
                    *gradient(x, spacing=(2.0, 3.0), dim=(1, 0), edge_order=2),
                ],
                X,
            ),
            Case(
                lambda x, r, c: [
                    *gradient(x, spacing=(r, c)),
                    *gradient(x, spacing=(r, c), edge_order=2),
                    *gradient(x, spacing=(c, r), dim=(1, 0)),
                    *gradient(x, spacing=(c,), dim=1),
                ],
                *(X, ROW_PLACES, COLUMN_PLACES),
            ),
            Case(gradient, torch.arange(6).square()),
            Case(lambda x, r: gradient(x, spacing=(r,)), torch.arange(4).square(), ROW_PLACES),
        ),
    ),
    Row(
        "aten::diff",
        opinfo="diff",
        cases=(
            Case(lambda x: torch.diff(x, n=2), floats(3, 5)),
            Case(lambda x, y: torch.diff(x, 0, prepend=y, append=y), floats(3, 5), floats(3, 2)),
            Case(lambda x, y: torch.diff(x, prepend=y, append=y), floats(3, 5), floats(3, 2)),
        ),
    ),
    Row("aten::trapezoid.x", cases=(Case(torch.trapezoid, floats(3, 5), floats(5, seed=1)),)),
    Row("aten::trapezoid.dx", cases=(Case(lambda y: torch.trapezoid(y, dx=0.5), floats(3, 5)),)),
    Row("aten::trapz.x", cases=(Case(aten.trapz.x, floats(3, 5), floats(3, 5, seed=1)),)),
    Row("aten::trapz.dx", cases=(Case(lambda y: aten.trapz.dx(y, dx=0.5), floats(3, 5)),)),
    Row(
        "aten::cumulative_trapezoid.x",
        cases=(Case(torch.cumulative_trapezoid, floats(3, 5), floats(5, seed=1)),),
    ),
    Row(
        "aten::cumulative_trapezoid.dx",
        cases=(Case(lambda y: torch.cumulative_trapezoid(y, dx=2.0, dim=0), floats(3, 5)),),
    ),
    Row("aten::fft_fftshift", cases=(Case(torch.fft.fftshift, floats(3, 4)),)),
    Row(
        "aten::fft_ifftshift",
        cases=(
            Case(torch.fft.ifftshift, floats(3, 4)),
            Case(lambda x: torch.fft.ifftshift(x, dim=1), floats(3, 5)),
        ),
    ),
]
