"""Rows of csrc/ops/signal/window.cpp; dynamic lengths are in test_windows.py."""

import torch

from ops.row import Case, Row, floats

aten = torch.ops.aten


def windows(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    found = [
        window(10, *arguments)
        for name in ("hann", "hamming", "blackman", "bartlett", "kaiser")
        for window, arguments in (
            (getattr(aten, f"{name}_window"), ()),
            (getattr(aten, f"{name}_window").periodic, (False,)),
        )
    ]
    found.append(aten.hamming_window.periodic_alpha(10, True, 0.6))
    found.append(aten.hamming_window.periodic_alpha_beta(10, False, 0.6, 0.3))
    found.append(aten.kaiser_window.beta(10, False, 3.0))
    return tuple(x + window for window in found)


ROWS = [
    Row(
        (
            *(f"aten::{name}_window" for name in ("hann", "hamming", "blackman", "bartlett")),
            *(f"aten::{name}_window.periodic" for name in ("hann", "hamming", "blackman")),
            "aten::bartlett_window.periodic",
            "aten::kaiser_window",
            "aten::kaiser_window.periodic",
            "aten::kaiser_window.beta",
            "aten::hamming_window.periodic_alpha",
            "aten::hamming_window.periodic_alpha_beta",
        ),
        name="windows",
        cases=(Case(windows, floats(2, 10)),),
    ),
]
