"""Rows of csrc/ops/tensor/creation.cpp."""

import torch

from ops.row import Case, Row, floats, integers

aten = torch.ops.aten

# Uninitialized memory: only its type can be compared.
EMPTY = {
    "empty.memory_format": lambda x: aten.empty.memory_format([x.shape[0], 2]),
    "empty_strided": lambda x: aten.empty_strided([x.shape[0], 2], [2, 1]),
    "empty_permuted": lambda x: aten.empty_permuted([x.shape[0], 2], [0, 1], dtype=torch.int32),
    "empty_like": lambda x: aten.empty_like(x, dtype=torch.float64),
    "new_empty": lambda x: aten.new_empty(x, [2, x.shape[0]]),
    "new_empty_strided": lambda x: aten.new_empty_strided(x, [2, 3], [3, 1]),
}


def constants(x: torch.Tensor) -> list[torch.Tensor]:
    """Tensors filled with one value."""
    n = x.shape[0]
    return [
        aten.zeros([n, 2]),
        aten.zeros([2], dtype=torch.bool),
        aten.zeros_like(x, dtype=torch.int8),
        aten.new_zeros(x, [n + 1]),
        aten.ones([n, 0]),
        aten.ones([], dtype=torch.float16),
        aten.ones_like(x),
        aten.new_ones(x, [n], dtype=torch.int64),
        aten.full([n, 2], 3),
        aten.full([2], True),
        aten.full([2], 0.1, dtype=torch.float64),
        aten.full([2], n),
        aten.full_like(x, 2.5),
        aten.new_full(x, [n], n, dtype=torch.float32),
    ]


def ranges(x: torch.Tensor) -> list[torch.Tensor]:
    """All forms of arange."""
    n = x.shape[0]
    return [
        torch.arange(n),
        torch.arange(n, dtype=torch.float32) + 1,
        aten.arange.start(1, n),
        aten.arange.start_step(n, -n, -2),
        aten.arange.start_step(0, 1, 0.1),
        aten.arange(2.5),
        aten.range(0, 3),
        aten.range.step(0.5, 3, 0.7),
        aten.range.step(3, -1, -2, dtype=torch.int64),
        aten.arange.start(0.5, 3, dtype=torch.float64),
        aten.arange(0),
        aten.arange(3.1, dtype=torch.int64),
        aten.arange.start_step(-0.9, 2.1, 2.0, dtype=torch.int32),
        aten.scalar_tensor(-5, dtype=torch.uint8),
    ]


ROWS = [
    Row(
        tuple(
            f"aten::{name}"
            for name in (
                *("zeros", "zeros_like", "new_zeros", "ones", "ones_like", "new_ones"),
                *("full", "full_like", "new_full"),
            )
        ),
        name="constants",
        cases=(Case(constants, floats(3, 4)), Case(constants, integers(3, 4))),
    ),
    *(
        Row(f"aten::{name}", cases=(Case(function, floats(3, 4)),), random=True)
        for name, function in EMPTY.items()
    ),
    Row(
        (
            *("aten::arange", "aten::arange.start", "aten::arange.start_step"),
            "aten::range.step",
        ),
        name="arange",
        cases=(Case(ranges, floats(5, 2)),),
    ),
    Row("aten::linspace", opinfo="linspace", static="it has no tensors"),
    Row(
        "aten::logspace",
        opinfo="logspace",
        static="it has no tensors",
        tolerance={"float32": (1e-4, 1e-5)},
    ),
    Row(
        tuple(
            f"aten::{name}.{form}"
            for name in ("linspace", "logspace")
            for form in ("Tensor_Tensor", "Tensor_Scalar", "Scalar_Tensor")
        ),
        name="ranges between tensors",
        cases=(
            Case(
                lambda x, y: (
                    aten.linspace.Tensor_Tensor(x, y, 7),
                    aten.linspace.Tensor_Scalar(x, 3, 1),
                    aten.linspace.Scalar_Tensor(1, y, 6, dtype=torch.int64),
                    aten.logspace.Tensor_Tensor(x, y, 5),
                    aten.logspace.Tensor_Scalar(x, 3, 4, 2.0),
                    aten.logspace.Scalar_Tensor(1, y, 3, dtype=torch.float64),
                ),
                torch.tensor(0.3),
                torch.tensor(2.6),
            ),
        ),
        static="its tensors are 0-d",
    ),
    Row(
        ("aten::eye", "aten::eye.m"),
        cases=(
            Case(
                lambda x: (
                    aten.eye(x.shape[0]),
                    aten.eye.m(x.shape[0], 5, dtype=torch.int64),
                    aten.eye(3, dtype=torch.bool),
                ),
                floats(3, 4),
            ),
        ),
    ),
    Row("aten::tril", opinfo="tril"),
    Row("aten::triu", opinfo="triu"),
    Row(
        ("aten::tril_indices", "aten::triu_indices"),
        cases=(
            Case(
                lambda x: (
                    aten.tril_indices(3, 4, 1) + x.to(torch.int64),
                    aten.triu_indices(4, 3, -1, dtype=torch.int32),
                ),
                floats(2, 1),
            ),
        ),
        static="they have no tensors",
    ),
    Row("aten::scalar_tensor", opinfo="scalar_tensor", static="it has no tensors"),
    Row(
        "aten::one_hot",
        cases=(
            Case(lambda x: aten.one_hot(x, 7), integers(3, 4, low=0, high=7)),
            Case(lambda x: aten.one_hot(x.reshape(()), 3), torch.tensor([2])),
        ),
    ),
]
