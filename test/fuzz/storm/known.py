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
        "the angle of a negative number: transforms give either zero as its imaginary part",
        r"fft[\s\S]*angle\(",
        message=r"^set \d+, result \d+: -?3\.14\d* instead of -?3\.14\d*$",
    ),
    Difference(
        "the normalization of one element is 0; eager's rounding of 16-bit floats leaves a rest",
        r"LayerNorm\(1\)\.(half|bfloat16)\(\)|(float16|bfloat16)[\s\S]*F\.layer_norm\(\w+, \(1,\)",
        message=r"^set \d+, result \d+: 0\.0 instead of -?\d\.\d+e-05$",
    ),
    Difference(
        "the normalization of one element is 0; eager's rounding of its mean leaves a rest",
        r"GroupNorm\(1, 1[,)]",
        message=r"^set \d+, result \d+: 0\.0 instead of -?\d\.\d+e-05$",
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
    Difference(
        "transforms: a rest of rounding in the place of 0",
        r"\b(fft|stft)",
        message=r"^set \d+, result \d+: -?\d\.\d+e-(0[5-9]|[1-9]\d) instead of -?0\.0$",
    ),
    Difference(
        "transforms: a rest of rounding in the place of 0 is not real",
        r"\bfft[\s\S]*\b(isreal|is_nonzero|count_nonzero)\(",
        message=r"^set \d+, result \d+: (False instead of True|\d+ instead of \d+)$",
    ),
    Difference(
        "products of transforms: a rest of rounding in the place of 0, times the other factors",
        r"\b(fft|stft)[\s\S]*\b(prod|cumprod)\(",
        message=r"^set \d+, result \d+: -?0\.0\d+ instead of -?0\.0$",
    ),
    Difference(
        "the truth of what rounding leaves of a difference",
        r"(batch_norm|BatchNorm|layer_norm|LayerNorm)[\s\S]*\b(all|any|bool|logical_\w+)\(",
        message=r"^set \d+, result \d+: (True instead of False|False instead of True)$",
    ),
    Difference(
        "a function at its branch cut: transforms give either zero as the imaginary part",
        r"fft[\s\S]*\b(acos|acosh|asin|atan|atanh|log|log2|log10|log1p|sqrt|rsqrt|pow)\(",
        message=r"^set \d+, result \d+: (?P<sign>-?)(?P<digits>\d+\.\d{4})\d* "
        r"instead of (?!(?P=sign)\d)-?(?P=digits)",
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
