"""Rows of csrc/ops/tensor/hash.cpp."""

import math

import torch

from ops.row import Case, Row, floats

# Zeros, powers of two and their neighbors, the smallest and largest numbers, and NaN.
NUMBERS = torch.tensor(
    [
        *(0.0, -0.0, 1.0, 2.0, 0.5, math.nextafter(8.0, 0), math.nextafter(2.0**40, math.inf)),
        *(-math.pi, 2.0**-1022, 2.0**1023, 1.7e308, 3e-310, 5e-324),
        *(math.inf, -math.inf, math.nan),
    ],
    dtype=torch.float64,
)

ROWS = [
    Row(
        "aten::hash_tensor",
        opinfo="hash_tensor",
        static="torch.export makes the sizes constants",
        cases=(
            Case(lambda x: torch.hash_tensor(x, 1, keepdim=True), floats(4, 3, 2)),
            Case(lambda x: torch.hash_tensor(x[:, None], 1), NUMBERS),
            Case(lambda x: torch.hash_tensor(x, 0), torch.tensor([[-1, 5], [2**62, -7]])),
        ),
    ),
]
