"""Fits polynomials and rational functions to special functions; writes fits.h.

Run this script by hand after changing a fit. The repository contains the result, so that the build
does not need mpmath. Each fit interpolates 40-digit values at Chebyshev points, which is close to
optimal. The script evaluates it in float64 and checks it against its tolerance: relative, or
absolute where the function has zeros or is added to a function near 1.
"""

from __future__ import annotations

import functools
import pathlib
from collections.abc import Callable
from dataclasses import dataclass

from mpmath import mp, mpf

mp.dps = 40

Function = Callable[[mpf], mpf]


@dataclass(frozen=True)
class Fit:
    """The name, argument, function, interval and degrees of a fit."""

    name: str
    of: str
    function: Function
    low: float
    high: float
    numerator: int
    denominator: int = 0
    relative: bool = True
    tolerance: float = 1e-9


def interpolate(fit: Fit) -> tuple[list[float], list[float]]:
    """Returns numerator and denominator by ascending power; the denominator starts with 1."""
    count = fit.numerator + fit.denominator + 1
    middle, half = (mpf(fit.low) + fit.high) / 2, (mpf(fit.high) - fit.low) / 2
    system, values = mp.matrix(count, count), mp.matrix(count, 1)
    for row in range(count):
        x = middle + half * mp.cos(mp.pi * (2 * row + 1) / (2 * count))
        values[row] = fit.function(x)
        for power in range(fit.numerator + 1):
            system[row, power] = x**power
        for power in range(1, fit.denominator + 1):
            system[row, fit.numerator + power] = -values[row] * x**power
    solution = [float(value) for value in mp.lu_solve(system, values)]
    return solution[: fit.numerator + 1], [1.0, *solution[fit.numerator + 1 :]]


def horner(coefficients: list[float], x: float) -> float:
    return functools.reduce(lambda sum, term: sum * x + term, reversed(coefficients))


def error(fit: Fit, numerator: list[float], denominator: list[float]) -> float:
    """Returns the largest error at 200 points."""
    points = [fit.low + (fit.high - fit.low) * (i + 0.5) / 200 for i in range(200)]
    exact = [float(fit.function(mpf(x))) for x in points]
    return max(
        abs(horner(numerator, x) / horner(denominator, x) - y) / (abs(y) if fit.relative else 1)
        for x, y in zip(points, exact, strict=True)
    )


def of_square(function: Function) -> Function:
    """Returns the function of the argument's square."""
    return lambda u: function(mp.sqrt(u))


def over(scale: float, function: Function) -> Function:
    """Returns the function of scale / x."""
    return lambda t: function(scale / t)


def over_square(scale: float, function: Function) -> Function:
    """Returns the function of (scale / x)^2."""
    return lambda t: function(scale / mp.sqrt(t))


def modulus_cosine(order: int, x: mpf) -> mpf:
    """P of DLMF 10.17.3: Hankel's expansion has J = sqrt(2 / (pi x)) (P cos - Q sin)."""
    phase = x - (2 * order + 1) * mp.pi / 4
    return mp.sqrt(mp.pi * x / 2) * (
        mp.besselj(order, x) * mp.cos(phase) + mp.bessely(order, x) * mp.sin(phase)
    )


def modulus_sine(order: int, x: mpf) -> mpf:
    """Q of DLMF 10.17.3, times x / 8."""
    phase = x - (2 * order + 1) * mp.pi / 4
    value = mp.bessely(order, x) * mp.cos(phase) - mp.besselj(order, x) * mp.sin(phase)
    return mp.sqrt(mp.pi * x / 2) * value * x / 8


def bessel_y_regular(order: int, x: mpf) -> mpf:
    """The even part of DLMF 10.8.1 without the logarithm and the pole."""
    y = mp.bessely(order, x) - 2 / mp.pi * mp.log(x) * mp.besselj(order, x)
    return (y + 2 / (mp.pi * x)) / x if order else y


def bessel_k_regular(order: int, x: mpf) -> mpf:
    """DLMF 10.31.1 and .2 without the logarithm; times x for order 1."""
    if order:
        return (mp.besselk(1, x) - mp.log(x / 2) * mp.besseli(1, x)) * x
    return mp.besselk(0, x) + mp.log(x / 2) * mp.besseli(0, x)


def airy_argument(zeta: mpf) -> mpf:
    return (3 * zeta / 2) ** (mpf(2) / 3)


AIRY_HIGH = 2 / 3 * 2**1.5
AIRY_LOW = 2 / 3 * 3**1.5


def airy_decay(zeta: mpf) -> mpf:
    """DLMF 9.7.5 without e^-zeta / (2 sqrt(pi) x^(1/4))."""
    x = airy_argument(zeta)
    return mp.airyai(x) * mp.exp(zeta) * 2 * mp.sqrt(mp.pi) * mp.root(x, 4)


def airy_wave(zeta: mpf, cosine: bool) -> mpf:
    """The factor of cos(zeta - pi/4), or of sin times zeta / AIRY_LOW, in DLMF 9.7.9."""
    x, phase = airy_argument(zeta), zeta - mp.pi / 4
    ai, bi = mp.airyai(-x), mp.airybi(-x)
    amplitude = mp.sqrt(mp.pi) * mp.root(x, 4)
    if cosine:
        return amplitude * (ai * mp.cos(phase) - bi * mp.sin(phase))
    return amplitude * (ai * mp.sin(phase) + bi * mp.cos(phase)) * zeta / AIRY_LOW


def erfcx(x: mpf) -> mpf:
    return mp.exp(x * x) * mp.erfc(x)


def erfinv_of_log(w: mpf) -> mpf:
    """erfinv(x) / x as a function of w = -log(1 - x^2)."""
    x = mp.sqrt(-mp.expm1(-w))
    if w < 6:
        return mp.erfinv(x) / x
    logarithm = -w - mp.log(1 + x)
    guess = mp.sqrt(w)
    return mp.findroot(lambda z: mp.log(mp.erfc(z)) - logarithm, guess) / x


def erfinv_tail(reciprocal: mpf) -> mpf:
    """erfinv(x) / (x y), where y = 1 / reciprocal and y^2 = w - log(pi w / 4) / 2."""
    y = 1 / reciprocal
    w = mp.findroot(lambda w: w - mp.log(mp.pi * w / 4) / 2 - y * y, y * y + mp.log(y))
    return erfinv_of_log(w) / y


def bessel_fits(order: int) -> list[Fit]:
    def divided(function: Function) -> Function:
        return of_square(lambda x: function(x) / x**order)

    def of_order(function: Callable[[int, mpf], mpf]) -> Function:
        return functools.partial(function, order)

    j, y, cosine, sine = (
        divided(of_order(mp.besselj)),
        of_square(of_order(bessel_y_regular)),
        over_square(8, of_order(modulus_cosine)),
        over_square(8, of_order(modulus_sine)),
    )
    i, k = divided(of_order(mp.besseli)), of_square(of_order(bessel_k_regular))
    i_large = over(8, lambda x: mp.sqrt(x) * mp.exp(-x) * mp.besseli(order, x))
    k_large = over(2, lambda x: mp.sqrt(x) * mp.exp(x) * mp.besselk(order, x))
    power = f" / x^{order}" if order else ""
    return [
        Fit(f"J{order}", f"J{order}(x){power}, of x^2", j, 0, 64, 12 - order, relative=False),
        Fit(
            f"Y{order}", f"the even part of Y{order}, of x^2", y, 0, 64, 12 - order, relative=False
        ),
        Fit(f"JCosine{order}", "P of DLMF 10.17, of (8 / x)^2", cosine, 0, 1, 5),
        Fit(f"JSine{order}", "Q x / 8 of DLMF 10.17, of (8 / x)^2", sine, 0, 1, 5, relative=False),
        Fit(f"I{order}", f"I{order}(x){power}, of x^2", i, 0, 64, 12 - order),
        Fit(f"ILarge{order}", f"sqrt(x) e^-x I{order}(x), of 8 / x", i_large, 0, 1, 10),
        Fit(f"K{order}", f"the even part of K{order}, of x^2", k, 0, 4, 7),
        Fit(f"KLarge{order}", f"sqrt(x) e^x K{order}(x), of 2 / x", k_large, 0, 1, 4, 4),
    ]


FITS = [
    *bessel_fits(0),
    *bessel_fits(1),
    Fit("Airy", "Ai(x)", mp.airyai, -3, 2, 11, 7, relative=False),
    Fit("AiryDecay", f"Ai, of {AIRY_HIGH} / zeta", over(AIRY_HIGH, airy_decay), 0, 1, 4, 4),
    Fit(
        "AiryCosine",
        f"Ai and Bi, of ({AIRY_LOW} / zeta)^2",
        over_square(AIRY_LOW, lambda zeta: airy_wave(zeta, cosine=True)),
        0,
        1,
        4,
        3,
    ),
    Fit(
        "AirySine",
        f"Ai and Bi, of ({AIRY_LOW} / zeta)^2",
        over_square(AIRY_LOW, lambda zeta: airy_wave(zeta, cosine=False)),
        0,
        1,
        4,
        3,
        relative=False,
    ),
    Fit("Erf", "erf(x) / x, of x^2", of_square(lambda x: mp.erf(x) / x), 0, 1, 11, tolerance=1e-15),
    Fit(
        "Erfcx",
        "e^(x^2) erfc(x) / v, of v = 3 / (3 + x)",
        lambda v: erfcx(3 / v - 3) / v,
        0,
        1,
        12,
        8,
        tolerance=1e-15,
    ),
    Fit("Erfinv", "erfinv(x) / x, of w = -log(1 - x^2)", erfinv_of_log, 0, 6.25, 5, 5),
    Fit(
        "ErfinvTail",
        "erfinv(x) / (x y), of 1 / y, y^2 = w - log(pi w / 4) / 2",
        erfinv_tail,
        0.0366,
        0.4282,
        10,
        5,
    ),
]


def array(name: str, coefficients: list[float]) -> list[str]:
    return [f"inline constexpr double {name}[] = {{", *(f"    {c!r}," for c in coefficients), "};"]


def main() -> None:
    lines = [
        "// Generated by generate_fits.py: coefficients by ascending power.",
        "#pragma once",
        "",
        "namespace onnx_native::ops::fits {",
        "",
    ]
    for fit in FITS:
        numerator, denominator = interpolate(fit)
        wrong = error(fit, numerator, denominator)
        print(f"{fit.name}: {wrong:.1e}")
        if wrong > fit.tolerance:
            raise SystemExit(
                f"{fit.name}: the error {wrong:.1e} exceeds the tolerance {fit.tolerance:.1e}"
            )
        lines.append(f"// {fit.of}; {fit.low} to {fit.high}.")
        lines += array(f"k{fit.name}" + ("Top" if fit.denominator else ""), numerator)
        if fit.denominator:
            lines += array(f"k{fit.name}Bottom", denominator)
    lines += ["", "}  // namespace onnx_native::ops::fits"]
    pathlib.Path(__file__).with_name("fits.h").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
