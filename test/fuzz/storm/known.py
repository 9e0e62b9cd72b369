"""Differences from eager that are not faults, each with a reason. Keep the entries narrow.

Entries apply to reduced programs, which contain the cause and little else.
"""

from __future__ import annotations

import dataclasses
import re

from storm.program import Program


@dataclasses.dataclass(frozen=True)
class Difference:
    """One known difference.

    Attributes:
        reason: Why it is not a fault.
        source: A pattern that the program's statements match.
        verdict: The verdict that it explains.
        message: A pattern that the message matches.
        longest: The maximum number of statements of such a program.
    """

    reason: str
    source: str
    verdict: str = "wrong"
    message: str = ""
    longest: int = 3


KNOWN = (
    Difference(
        "eager's bessel_j0 is wrong by up to 4e-7 around 5 in double precision",
        r"bessel_j0\(",
        message=r"^set \d+, result \d+: (-?0\.\d{5})\d* instead of \1\d*$",
    ),
    Difference(
        "indices of equal elements: eager gives any of them",
        r"\b(topk|kthvalue|mode|median|nanmedian)\(",
        message=r"^set \d+, result \d+: -?\d+ instead of -?\d+$",
        longest=6,
    ),
    Difference(
        "losses of two dtypes: torch records another dtype for their results than eager gives",
        r"F\.(huber_loss|soft_margin_loss|binary_cross_entropy_with_logits)\(",
        message=r"^set \d+, result \d+: dtype \w+ instead of \w+$",
    ),
    Difference(
        "the order of the factors decides whether a product overflows before it meets a zero",
        r"\b(prod|cumprod)\(",
        message=r"^set \d+, result \d+: nan instead of -?0\.0$",
    ),
    Difference(
        "TorchScript stores True and False as 1 and 0, and drops `x * 1` and `x + 0` when it runs",
        r"([*+-] (True|False)\b|\b(True|False) [*+])",
        message=r"^set \d+, result \d+: dtype int64 instead of bool$",
    ),
    Difference(
        "ONNX Runtime's Where, with which elements are written, gives 0 for -0",
        r"\] [-+*/]?= [\s\S]*\b(atan2|angle)\(",
        message=r"^set \d+, result \d+: -?0\.0 instead of -?3\.14\d*$",
    ),
    Difference(
        "ONNX Runtime's sum of numbers that are all -0 is -0, eager's is 0",
        r"\b(sum|cumsum|einsum)\([\s\S]*\b(atan2|angle)\(",
        message=r"^set \d+, result \d+: -?(0\.0|3\.14\d*) instead of -?(0\.0|3\.14\d*)$",
        longest=5,
    ),
    Difference(
        "eager's vectorized negation of complex numbers gives 0 for -0",
        r"(neg(ative)?_?\(|= -\w)[\s\S]*\bangle\(",
        message=r"^set \d+, result \d+: -3\.14\d* instead of 3\.14\d*$",
    ),
    Difference(
        "circular padding of no elements reads memory that eager does not initialize",
        r"mode='circular'",
        verdict="fails when run",
        message="modulo by zero",
    ),
    Difference(
        "ONNX Runtime's FusedMatMul divides by a size of 0 where it moves the batch of a product",
        r"MultiheadAttention\(",
        verdict="crash",
        message="the process ended with status 8",
    ),
    Difference(
        "ONNX Runtime's FusedMatMul leaves the result of a product over no elements as it was",
        r"\[[^\]]*:[^\]]*\][\s\S]* @ \w+\.transpose\(-1, -2\)",
        message=r"^with optimizations, set \d+, result \d+: \S+ instead of 0\.0$",
        longest=4,
    ),
    Difference(
        "ONNX Runtime's optimizations remove an addition of 0, which makes 0 of -0",
        r"margin_ranking_loss\([\s\S]*signbit\(",
        message=r"^with optimizations, set \d+, result \d+: True instead of False$",
    ),
    Difference(
        "the imaginary part of a transform is 0 but for rounding, and is divided by 0",
        r"\bfft\.\w+\([\s\S]* / 0\b",
        message=r"^set \d+, result \d+: -?inf instead of nan$",
    ),
    Difference(
        "eager does not check the shape of an index without elements",
        r"\bgather\(",
        verdict="fails when run",
        message="'indices' shape should have values within bounds of 'data' shape",
    ),
    Difference(
        "eager does not check an index into an axis without elements if another axis has none",
        r"index_(add|copy|fill)_?\(",
        verdict="fails when run",
        message="indices must be empty when an indexed data dimension has size 0",
        longest=4,
    ),
    Difference(
        "the two sides of a window are equal but for rounding",
        r"_window\([\s\S]*\bunique",
        message=r"^set \d+, result \d+: \d+ instead of \d+$",
        longest=4,
    ),
    Difference(
        "the trapezoid rule gives integers for no elements only",
        r"\b(trapezoid|trapz)\(",
        message=r"^set \d+, result \d+: dtype float\d+ instead of u?int\d+$",
    ),
    Difference(
        "eager returns an empty input of pixel_unshuffle as it is; its meta kernel has other sizes",
        r"PixelUnshuffle|pixel_unshuffle",
        message=r"^set \d+, result \d+: shape \[.*\b0\b.*\] instead of \[.*\b0\b.*\]$",
    ),
)


def reason(program: Program, verdict: str, message: str) -> str:
    """Returns the reason of the first matching entry; empty if there is none."""
    text = "\n".join([*program.inits, *program.body, *program.results])
    for entry in KNOWN:
        if (
            entry.verdict == verdict
            and len(program.body) <= entry.longest
            and re.search(entry.source, text)
            and re.search(entry.message, message)
        ):
            return entry.reason
    return ""
