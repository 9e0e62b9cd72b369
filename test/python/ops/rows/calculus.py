"""Rows of csrc/ops/calculus.cpp."""

import torch

from ops.row import Case, Row, floats

aten = torch.ops.aten

ROWS = [
    Row(
        "aten::diff",
        opinfo="diff",
        cases=(
            Case(lambda x: torch.diff(x, n=2), floats(3, 5)),
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
