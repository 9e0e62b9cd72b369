"""Rows of csrc/ops/math/special.cpp, special_bessel.cpp, special_error.cpp, special_gamma.cpp and
special_polynomials.cpp."""

import math
from collections.abc import Callable

import torch

from ops.row import Case, Row, integers

aten = torch.ops.aten
INF, NAN = math.inf, math.nan
POLYNOMIALS = (
    *(f"chebyshev_polynomial_{kind}" for kind in "tuvw"),
    *(f"shifted_chebyshev_polynomial_{kind}" for kind in "tuvw"),
    *("hermite_polynomial_h", "hermite_polynomial_he"),
    *("laguerre_polynomial_l", "legendre_polynomial_p"),
)

# Near the poles, small, ordinary and large numbers, and NaN.
NUMBERS = torch.tensor(
    [
        *(-100.3, -7.5, -3.0, -2.0001, -1.5, -1e-3, -0.0, 0.0, 1e-6, 0.25, 0.5, 1.0, 1.4616),
        *(2.0, 7.3, 33.0, 1e4, 1e20, INF, NAN),
    ]
)
# Both sides of the boundaries between formulas.
POINTS = torch.tensor(
    [
        *(-INF, -50.5, -12.0, -8.1, -7.9, -5.0, -3.1, -2.9, -2.0, -1.0, -0.3, -1e-4, -0.0),
        *(0.0, 1e-30, 1e-6, 0.2, 0.5, 0.9, 1.0, 1.9, 2.1, 3.5, 5.0, 7.9, 8.0, 8.1, 12.0, 30.0),
        *(80.0, INF, NAN),
    ],
    dtype=torch.float64,
)
PROBABILITIES = torch.tensor(
    [
        *(-1.5, -1.0, -0.99999, -0.5, -1e-3, -0.0, 0.0, 1e-300, 1e-30, 1e-6, 0.01, 0.25, 0.5),
        *(0.7, 0.998, 0.999, 0.9999999, 1.0, 1.5, NAN),
    ],
    dtype=torch.float64,
)


def both(function: Callable[..., torch.Tensor], points: torch.Tensor) -> tuple[Case, ...]:
    """Returns cases in float64 and float32."""
    return Case(function, points), Case(function, points.float())


def special(name: str, points: torch.Tensor = POINTS) -> Row:
    """Returns the row of an operator whose OpInfo has the name of its torch.special function."""
    return Row(
        f"aten::special_{name}",
        opinfo=f"special.{name}",
        cases=both(getattr(torch.special, name), points),
    )


def polynomial(name: str) -> Row:
    """All overloads, up to degrees that use loops, and at the ends of the interval."""
    function = getattr(torch.special, name)
    # For NaN, ATen returns uninitialized memory.
    x = torch.tensor([-2.5, -1.0, -0.7, 0.0, 0.3, 0.5, 1.0, 1.5, INF])
    n = torch.tensor([-1, 0, 1, 2, 3, 5, 7, 9, 20])
    degrees = [Case(lambda x, n=n: function(x, n), x) for n in (-2, 0, 1, 2, 7, 11)]
    return Row(
        tuple(f"aten::special_{name}{overload}" for overload in ("", ".n_scalar", ".x_scalar")),
        opinfo=f"special.{name}",
        name=name,
        cases=(
            Case(lambda x, n: [function(x[:, None], n), function(x, 4), function(0.25, n)], x, n),
            Case(function, x.double(), n),
            *degrees,
            Case(lambda n: function(0.25, n), n),
        ),
    )


SECOND = torch.tensor([-1.0, 0.0, 1e-10, 0.5, 1.0, 3.0, 20.0, 101.0, 1000.0, INF, NAN])


def incomplete_gamma(name: str, alias: str) -> tuple[Row, ...]:
    function = getattr(torch, name)
    first = torch.tensor([-1.0, 0.0, 0.5, 1.0, 3.0, 100.0, 300.0, INF, NAN])
    return (
        Row(
            f"aten::{name}",
            opinfo=name,
            cases=(
                Case(function, first[:, None], SECOND),
                Case(function, first[:, None].double(), SECOND.double()),
            ),
        ),
        Row(
            f"aten::special_{alias}",
            cases=(Case(getattr(aten, f"special_{alias}"), first, first.flip(0)),),
        ),
    )


ROWS = [
    Row("aten::lgamma", opinfo="lgamma", cases=(Case(torch.lgamma, NUMBERS),)),
    Row("aten::digamma", opinfo="digamma", cases=(Case(torch.digamma, NUMBERS),)),
    Row("aten::mvlgamma", opinfo="mvlgamma", variant="mvlgamma_p_3"),
    Row("aten::special_entr", opinfo="special.entr"),
    Row(
        tuple(
            f"aten::special_{name}"
            for name in ("gammaln", "digamma", "psi", "erfinv", "i0", "modified_bessel_i0")
        ),
        name="aliases of special functions",
        cases=(
            Case(
                lambda x: [
                    *(aten.special_gammaln(x), aten.special_digamma(x), aten.special_psi(x)),
                    *(
                        aten.special_erfinv(x),
                        aten.special_i0(x),
                        aten.special_modified_bessel_i0(x),
                    ),
                ],
                torch.tensor([0.1, 0.5, 0.9]),
            ),
        ),
    ),
    Row(
        "aten::special_multigammaln",
        cases=(Case(lambda x: aten.special_multigammaln(x, 2), torch.tensor([0.8, 3.0])),),
    ),
    # Bessel functions.
    Row("aten::i0", opinfo="i0", cases=both(torch.i0, POINTS)),
    *(
        special(name)
        for name in (
            *("i0e", "i1", "i1e", "bessel_j0", "bessel_j1", "bessel_y0", "bessel_y1"),
            *("modified_bessel_i1", "modified_bessel_k0", "modified_bessel_k1"),
            *("scaled_modified_bessel_k0", "scaled_modified_bessel_k1"),
            *("airy_ai", "spherical_bessel_j0"),
        )
    ),
    # The error function's family.
    Row(
        ("aten::erf", "aten::special_erf"),
        opinfo="erf",
        name="erf",
        cases=(*both(torch.erf, POINTS), Case(aten.special_erf, POINTS)),
    ),
    Row(
        ("aten::erfc", "aten::special_erfc"),
        opinfo="erfc",
        name="erfc",
        cases=(*both(torch.erfc, POINTS), Case(aten.special_erfc, POINTS)),
    ),
    Row("aten::erfinv", opinfo="erfinv", cases=both(torch.erfinv, PROBABILITIES)),
    special("erfcx"),
    special("ndtr"),
    special("log_ndtr"),
    special("ndtri", PROBABILITIES),
    # Zeta and the gamma function's derivatives and integrals.
    *(
        Row(
            "aten::polygamma",
            opinfo="polygamma",
            variant=f"polygamma_n_{n}",
            name=f"polygamma {n}",
            # The float64 sine of a multiple of pi differs between libraries.
            cases=(
                Case(lambda x, n=n: torch.polygamma(n, x), NUMBERS),
                Case(lambda x, n=n: torch.polygamma(n, x), NUMBERS[NUMBERS != -3].double()),
            ),
        )
        for n in range(4)
    ),
    Row(
        "aten::special_polygamma",
        cases=(Case(lambda x: aten.special_polygamma(5, x), torch.tensor([-0.5, 0.5, 3.0])),),
    ),
    Row(
        tuple(
            f"aten::special_zeta{overload}" for overload in ("", ".self_scalar", ".other_scalar")
        ),
        opinfo="special.zeta",
        name="zeta",
        cases=(
            Case(
                lambda s, q: [
                    *(torch.special.zeta(s[:, None], q), torch.special.zeta(2.5, q)),
                    torch.special.zeta(s, 1.5),
                ],
                torch.tensor([-1.0, 0.5, 1.0, 1.5, 2.0, 3.0, 50.0, NAN], dtype=torch.float64),
                torch.cat([NUMBERS[1:-3], torch.tensor([-INF, INF, NAN])]).double(),
            ),
        ),
    ),
    *incomplete_gamma("igamma", "gammainc"),
    *incomplete_gamma("igammac", "gammaincc"),
    *(polynomial(name) for name in POLYNOMIALS),
    Row(
        "aten::special_legendre_polynomial_p",
        name="polynomials of no numbers",
        static="the first dimension is empty",
        cases=(
            Case(
                lambda x, n: torch.special.legendre_polynomial_p(x, n),
                torch.zeros(0, 2),
                integers(2, low=0),
            ),
        ),
    ),
]
