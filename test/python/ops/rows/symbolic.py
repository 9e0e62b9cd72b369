"""Rows of csrc/ops/program/symbolic.cpp: numbers read from tensors, and arithmetic with them."""

import math
from typing import cast

import torch

from ops.row import Case, Row, floats

aten = torch.ops.aten


def floats_from_data(x: torch.Tensor) -> list[torch.Tensor]:
    """Arithmetic with a float that is read from a tensor."""
    a, b = x[0, 0].item(), x[1, 1].item()
    return [
        x * (a + 2 * b - 1),
        x * (a / (b * b + 1)),
        x * -a,
        x * abs(a - b),
        x * a**2,
        x * (a // b),
        x * (a % b),
        x + torch.sym_max(a, b),
        x + torch.sym_min(a, 0.5),
        x * torch.sym_ite(a > b, a, b),
        x * torch.sym_sqrt(a),
        x * math.floor(a),
        x * math.ceil(a),
        x * math.trunc(a * 3),
        x * round(a),
    ]


def integers_from_data(n: torch.Tensor, x: torch.Tensor) -> list[torch.Tensor]:
    """Sizes and integers that are read from a tensor."""
    a, b = (cast(int, number.item()) for number in (n[0], n[1]))
    torch._check(a >= 0)
    torch._check(b >= 1)
    return [
        torch.arange(a + 2 * b),
        torch.ones(a // b + 1),
        x * (a / b),
        x * a**2,
        x * (a % b),
        x * torch.sym_float(a),
        x * (-a - b),
        x + torch.sym_max(a, b),
        x + torch.sym_min(a, 3),
    ]


def decided_by_data(n: torch.Tensor, x: torch.Tensor) -> list[torch.Tensor]:
    """Every comparison as the condition of a branch."""
    a, b = n[0].item(), n[1].item()
    conditions = [
        a > b,
        a >= b,
        a < b,
        a <= b,
        a == b,
        a != b,
        (a > b) & (a < 7),
        (a > b) | (a < 3),
        torch.sym_not((n[0] > n[1]).item()),
    ]
    return [torch.cond(p, torch.sin, torch.cos, (x,)) for p in conditions]


def numbers_from_sizes(x: torch.Tensor) -> list[torch.Tensor]:
    """Computes floats from a size."""
    n = x.shape[0]
    return [x * (n / 3), x * n**0.5, x / (n * x.shape[1]), x + torch.sym_float(n)]


ROWS = [
    Row(
        (
            "aten::item",
            "python::_sym_sqrt",
            "python::abs",
            "python::add",
            "python::ceil",
            "python::floor",
            "python::gt",
            "python::mod",
            "python::mul",
            "python::neg",
            "python::pow",
            "python::round",
            "python::sub",
            "python::sym_float",
            "python::sym_ite",
            "python::sym_max",
            "python::sym_min",
            "python::truediv",
            "python::trunc",
        ),
        name="floats from data",
        cases=(Case(floats_from_data, floats(3, 4).abs()),),
    ),
    Row(
        "aten::_local_scalar_dense",
        cases=(Case(lambda x: x * aten._local_scalar_dense(x.sum()), floats(3, 4)),),
    ),
    Row(
        ("aten::item", "python::floordiv"),
        name="integers from data",
        cases=(Case(integers_from_data, torch.tensor([5, 3]), floats(3, 4)),),
        static="the first input is two numbers",
    ),
    Row(
        (
            "python::and_",
            "python::eq",
            "python::ge",
            "python::gt",
            "python::le",
            "python::lt",
            "python::ne",
            "python::or_",
            "python::sym_not",
        ),
        name="decided by data",
        cases=(Case(decided_by_data, torch.tensor([5, 3]), floats(3, 4)),),
        static="the first input is two numbers",
    ),
    Row(
        "aten::mul.Tensor",
        name="numbers from sizes",
        cases=(Case(numbers_from_sizes, floats(3, 4)),),
    ),
]
