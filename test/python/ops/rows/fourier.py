"""Rows of csrc/ops/signal/fourier.cpp."""

from typing import Any

import torch

from ops.row import Case, Row, floats
from ops.rows.complex import complexes

aten = torch.ops.aten
fft = torch.fft

SIGNAL = floats(4, 20)
SPECTRUM = complexes(4, 11)
BATCH = complexes(4, 6, 5)
# Long enough that a float32 transform would lose digits, and not a power of two.
LONG = floats(2, 400)
DOUBLE = floats(3, 21, dtype=torch.float64)
TOLERANCE = {"float32": (1e-5, 5e-5)}


def row(op: str, *cases: Case, keys: tuple[str, ...] = ("complex",), **options: Any) -> Row:
    name = op.removeprefix("fft_")
    names = tuple(f"aten::{op}@{key}" if key == "complex" else f"aten::{op}" for key in keys)
    return Row(
        names,
        opinfo=f"fft.{name}" if op.startswith("fft_") else "",
        cases=cases,
        name=op,
        tolerance=TOLERANCE,
        **options,
    )


TO_REAL = ("complex", "dense")


def many(name: str, suffix: str) -> Row:
    """Transforms of several dimensions."""
    function = getattr(fft, name + suffix)
    tensor = floats(4, 6, 5) if name in ("rfft", "ihfft") else BATCH
    return row(
        f"fft_{name}{suffix}",
        Case(lambda x: function(x, norm="ortho"), tensor),
        Case(lambda x: function(x, (7, -1), (0, 1)), tensor),
        Case(lambda x: function(x, (4, 8)), tensor),
        Case(lambda x: function(x, norm="forward"), floats(4, 6, 5)),
        keys=TO_REAL if name in ("irfft", "hfft") else ("complex",),
    )


TRANSFORMS = [
    row(
        "fft_fft",
        Case(lambda x: fft.fft(x, dim=0), SIGNAL),
        Case(fft.fft, LONG),
        Case(lambda x: fft.fft(x, 12, 1, "ortho"), BATCH),
        Case(lambda x: fft.fft(x, norm="forward"), DOUBLE),
    ),
    row(
        "fft_ifft",
        Case(lambda x: fft.ifft(x, dim=0), SPECTRUM),
        Case(lambda x: fft.ifft(x, 12, 1, "ortho"), BATCH),
        Case(lambda x: fft.ifft(x, norm="forward"), BATCH),
        Case(fft.ifft, complexes(3, 21, dtype=torch.float64)),
        Case(fft.ifft, SIGNAL),
    ),
    row(
        "fft_rfft",
        Case(lambda x: fft.rfft(x, dim=0, norm="ortho"), SIGNAL),
        Case(lambda x: fft.rfft(x), SIGNAL.T.contiguous()),
        Case(fft.rfft, LONG),
        Case(lambda x: fft.rfft(x, 32), SIGNAL),
        # The angles of real bins are 0 or pi, not those of rounding in the imaginary parts.
        Case(lambda x: [fft.rfft(x, n).angle()[:, :: n // 2] for n in (6, 8)], floats(5, 9)),
        Case(fft.rfft, DOUBLE),
    ),
    row(
        "fft_ihfft",
        Case(lambda x: fft.ihfft(x, dim=0), SIGNAL),
        Case(lambda x: fft.ihfft(x, 7, -1, "forward"), SIGNAL),
    ),
    row(
        "fft_irfft",
        Case(lambda x: fft.irfft(x, 2 * x.shape[0] - 1, 0), SPECTRUM),
        Case(lambda x: fft.irfft(x, dim=0), SPECTRUM),
        Case(lambda x: fft.irfft(x, 21, norm="ortho"), SPECTRUM),
        Case(lambda x: fft.irfft(x, 9), SPECTRUM),
        Case(lambda x: fft.irfft(x, 40, norm="forward"), SPECTRUM),
        Case(lambda x: fft.irfft(x, x.shape[-1]), SIGNAL),
        Case(lambda x: fft.irfft(fft.rfft(x), 21), DOUBLE),
        keys=TO_REAL,
    ),
    row(
        "fft_hfft",
        Case(lambda x: fft.hfft(x, 2 * x.shape[0] + 2, 0), SPECTRUM),
        Case(lambda x: fft.hfft(x, dim=0), SPECTRUM),
        Case(lambda x: fft.hfft(x, 20, norm="ortho"), SPECTRUM),
        Case(fft.hfft, SIGNAL),
        keys=TO_REAL,
    ),
    *(
        many(name, suffix)
        for name in ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft")
        for suffix in ("2", "n")
    ),
    row("_fft_c2c", Case(lambda x: aten._fft_c2c(x, [0, 1], 1, False), BATCH)),
    row("_fft_r2c", Case(lambda x: aten._fft_r2c(x, [0, 1], 2, True), SIGNAL)),
    row("_fft_c2r", Case(lambda x: aten._fft_c2r(x, [0, 1], 2, 21), SPECTRUM)),
    Row(
        "aten::fft_fftfreq",
        cases=(Case(lambda: fft.fftfreq(7, 0.5)), Case(lambda: fft.fftfreq(8))),
        static="it has no tensors",
    ),
    Row(
        "aten::fft_rfftfreq",
        cases=(Case(lambda: fft.rfftfreq(7, 0.5)), Case(lambda: fft.rfftfreq(8))),
        static="it has no tensors",
    ),
]

SOUND = floats(2, 150)
WINDOW = torch.hann_window(16)
SHORT = torch.hamming_window(10)
FRAMES = torch.stft(SOUND, 16, 4, window=WINDOW, return_complex=True)
TOTAL = torch.stft(SOUND, 16, 4, window=WINDOW, onesided=False, return_complex=True)
OUTER = torch.stft(SOUND, 14, 5, window=torch.hann_window(14), return_complex=True, normalized=True)

SHORT_TIME = [
    Row(
        ("aten::stft@complex", "aten::stft"),
        opinfo="stft",
        cases=(
            Case(lambda x, w: torch.stft(x, 16, window=w, return_complex=True), SOUND, WINDOW),
            Case(lambda x, w: torch.stft(x, 16, 5, 10, w, return_complex=False), SOUND, SHORT),
            Case(lambda x: aten.stft(x, 16, win_length=10, return_complex=True), SOUND),
            Case(lambda x: torch.stft(x, 14, normalized=True, return_complex=True), SOUND[0]),
            Case(lambda x: torch.stft(x, 14, return_complex=True)[:, ::7].angle(), SOUND),
            Case(lambda x: torch.stft(x, 16, return_complex=True), complexes(2, 40)),
            Case(
                lambda x: torch.stft(x, 16, return_complex=True, onesided=False, center=False),
                floats(2, 40, dtype=torch.float64),
            ),
        ),
        tolerance=TOLERANCE,
    ),
    Row(
        ("aten::stft.center@complex", "aten::stft.center"),
        cases=(
            Case(
                lambda x, w: aten.stft.center(x, 16, window=w, return_complex=True), SOUND, WINDOW
            ),
            Case(
                lambda x: aten.stft.center(x, 14, pad_mode="replicate", return_complex=False), SOUND
            ),
        ),
        tolerance=TOLERANCE,
    ),
    Row(
        "aten::istft@complex",
        cases=(
            Case(lambda x, w: torch.istft(x, 16, 4, window=w), FRAMES, WINDOW),
            Case(lambda x, w: torch.istft(x, 16, 4, window=w, length=200), FRAMES[0], WINDOW),
            Case(lambda x, w: torch.istft(x, 16, 4, window=w, length=100), FRAMES, WINDOW),
            Case(lambda x: torch.istft(x, 16, 4, 10), FRAMES),
            Case(
                lambda x, w: torch.istft(x, 16, 4, window=w, onesided=False, return_complex=True),
                TOTAL,
                WINDOW,
            ),
            Case(
                lambda x, w: torch.istft(x, 14, 5, window=w, normalized=True),
                OUTER,
                torch.hann_window(14),
            ),
        ),
        tolerance=TOLERANCE,
    ),
]

ROWS = TRANSFORMS + SHORT_TIME
