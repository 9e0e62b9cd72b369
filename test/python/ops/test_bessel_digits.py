"""float64 Bessel and Airy functions compared with mpmath; eager is off by 1e-8 from 4 to 8."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mpmath
import pytest
import torch

from ops import checking
from ops.row import Case

special = torch.special
EXACT: dict[str, tuple[Callable[[torch.Tensor], torch.Tensor], Callable[[Any], Any], float]] = {
    "bessel_j0": (special.bessel_j0, lambda x: mpmath.besselj(0, x), -12),
    "bessel_j1": (special.bessel_j1, lambda x: mpmath.besselj(1, x), -12),
    "bessel_y0": (special.bessel_y0, lambda x: mpmath.bessely(0, x), 0.125),
    "bessel_y1": (special.bessel_y1, lambda x: mpmath.bessely(1, x), 0.125),
    "airy_ai": (special.airy_ai, mpmath.airyai, -12),
}


@pytest.mark.parametrize("name", EXACT)
def test_digits(name: str) -> None:
    function, exact, low = EXACT[name]
    inputs = torch.linspace(low, 25, 149, dtype=torch.float64)
    running = checking.session(checking.export(Case(function, inputs)))
    (argument,) = running.get_inputs()
    (result,) = running.run(None, {argument.name: inputs.numpy()})
    wanted = torch.tensor([float(exact(x)) for x in inputs.tolist()], dtype=torch.float64)
    torch.testing.assert_close(torch.from_numpy(result), wanted, rtol=1e-9, atol=1e-10)
