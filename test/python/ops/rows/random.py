"""Rows of csrc/ops/random/random.cpp: only dtype and shape can be compared."""

from collections.abc import Callable
from typing import Any

import torch

from ops.row import NEWEST_RANDOM_OPSET, Case, Row, floats

aten = torch.ops.aten

DRAWS: dict[str, Callable[[torch.Tensor], Any]] = {
    "rand": lambda x: aten.rand([x.shape[0], 2]),
    "rand.generator": lambda x: aten.rand.generator([2, 3], generator=None),
    "rand_like": lambda x: aten.rand_like(x, dtype=torch.float64),
    "randn": lambda x: aten.randn([x.shape[0], 2], dtype=torch.float16),
    "randn.generator": lambda x: aten.randn.generator([2, 3], generator=None),
    "randn_like": lambda x: aten.randn_like(x),
    "randint": lambda x: aten.randint(x.shape[0], [5]),
    "randint.low": lambda x: aten.randint.low(-3, 5, [x.shape[0]], dtype=torch.int32),
    "randint_like": lambda x: aten.randint_like(x, 5),
    "randint_like.low_dtype": lambda x: aten.randint_like.low_dtype(x, 2, 5, dtype=torch.int64),
    "randperm": lambda x: aten.randperm(x.shape[0]),
    "normal.float_float": lambda x: aten.normal.float_float(1.0, 2.0, [x.shape[0]]),
    "normal.Tensor_float": lambda x: aten.normal.Tensor_float(x, 2.0),
    "normal.float_Tensor": lambda x: aten.normal.float_Tensor(1.0, x.abs()),
    "normal.Tensor_Tensor": lambda x: aten.normal.Tensor_Tensor(x, x[0].abs()),
    "normal_functional": lambda x: aten.normal_functional(x, 1.0, 2.0),
    "uniform": lambda x: aten.uniform(x, 1.0, 2.0),
    "exponential": lambda x: aten.exponential(x, 2.0),
    "bernoulli": lambda x: aten.bernoulli(x.sigmoid()),
    "bernoulli.p": lambda x: aten.bernoulli.p(x, 0.3),
    "random": lambda x: aten.random(x),
    "random.to": lambda x: x.clone().random_(5),
    "cauchy": lambda x: x.clone().cauchy_(),
    "geometric": lambda x: x.clone().geometric_(0.3),
    "log_normal": lambda x: x.clone().log_normal_(),
    "multinomial": lambda x: (
        torch.multinomial(x.abs(), 3),
        torch.multinomial(x[0].abs(), 9, True),
    ),
    "bernoulli.Tensor": lambda x: aten.bernoulli.Tensor(x, x.sigmoid()),
}

ROWS = [
    Row(
        tuple(f"aten::{name}" for name in DRAWS),
        name="random numbers",
        cases=(Case(lambda x: [draw(x) for draw in DRAWS.values()], floats(3, 4)),),
        random=True,
        newest=NEWEST_RANDOM_OPSET,
    ),
    Row(
        (
            "aten::rand",
            "aten::randint.low",
            "aten::bernoulli.p",
            "aten::randperm",
            "aten::multinomial",
            "aten::geometric",
            "aten::random",
        ),
        name="random numbers in their range",
        newest=NEWEST_RANDOM_OPSET,
        cases=(
            Case(
                lambda x: (
                    (aten.rand([1000]) * x >= 0).all(),
                    aten.randint.low(-1, 2, [1000]).abs().amax() * x,
                    (aten.bernoulli.p(torch.zeros(1000), 1.0) == 1).all(),
                    aten.randperm(10).sum(),
                    torch.multinomial(x.new_tensor([0, 1, 0, 2, 0, 3]), 3).sort().values,
                    torch.multinomial(x.new_tensor([0, 1, 0]), 100, replacement=True),
                    (aten.geometric(torch.ones(1000), 0.5) >= 1).all(),
                    (aten.random(torch.ones(1000, dtype=torch.int8)) >= 0).all(),
                ),
                torch.ones(2, 1),
            ),
        ),
        static="what is compared does not depend on a size",
    ),
]
