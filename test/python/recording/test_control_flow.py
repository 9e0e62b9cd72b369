"""Native capture of torch.cond, while_loop, scan and map."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from models.calling import Calling
from models.recording import (
    DYNAMIC,
    EXAMPLES,
    Function,
    X,
    assert_recorded,
    exported,
    function_id,
    reason_of,
)
from torch import nn
from torch._higher_order_ops.associative_scan import associative_scan
from torch._higher_order_ops.map import map as map_over
from torch._higher_order_ops.scan import scan
from torch._higher_order_ops.while_loop import while_loop


def branch(x: torch.Tensor) -> Any:
    """Branches that use outer tensors and sizes."""
    scale = x.sum(0) * x.shape[1]
    return torch.cond(
        x.sum() > 0,
        lambda a: torch.sin(a) + scale + a.shape[1],
        lambda a: torch.cos(a) - 2 * scale.mean(),
        (x,),
    )


def branch_on_a_size(x: torch.Tensor) -> Any:
    return torch.cond(x.shape[1] > 5, lambda: x * 2, lambda: x + x.shape[0])


def several_results(x: torch.Tensor) -> Any:
    def yes(a: torch.Tensor) -> Any:
        y = a * 2
        y += 1
        y[:, 0] = 3
        return {"values": y, "parts": (a.sum(1), a[..., 0] * 1)}

    def no(a: torch.Tensor) -> Any:
        return {"values": -a, "parts": (a.amax(1), a[..., 1].clone())}

    result = torch.cond(x.mean() > 0, yes, no, (x,))
    return result["values"] * 2, result["parts"][0] + result["parts"][1].sum()


def nested_branch(x: torch.Tensor) -> Any:
    offset = x.mean()

    def inner(a: torch.Tensor) -> torch.Tensor:
        return torch.cond(a.max() > 1, lambda b: b * offset, lambda b: b + x.shape[1], (a,))

    return torch.cond(x.sum() > 0, inner, lambda a: -a, (x,))


def countdown(x: torch.Tensor) -> Any:
    step = x.abs().amax() * 0 + 1
    return while_loop(
        lambda i, a: i > 0,
        lambda i, a: (i - step.long(), a * 1.5 + x.shape[1]),
        (torch.tensor(3), x),
    )


def until_a_sum(x: torch.Tensor) -> Any:
    weight = x[0, 0] * 0.1 + 1
    total, left = while_loop(
        lambda a, b: (a.sum() < 50) & (b.sum() < 100),
        lambda a, b: (a + weight.abs(), b + a.shape[0]),
        (x.abs(), x.abs().sum(1)),
    )
    return total.mean(), left


def running_sums(x: torch.Tensor) -> Any:
    weight = x.mean((0, 1)) * 0.5

    def step(carry: torch.Tensor, row: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        following = carry + row * weight
        return following, torch.relu(following) * row.shape[0]

    return scan(step, torch.zeros_like(x[0]), x)


def backwards(x: torch.Tensor) -> Any:
    def step(carry: Any, parts: Any) -> Any:
        following = {"sum": carry["sum"] + parts[0], "product": carry["product"] * parts[1].cos()}
        return following, (following["sum"] * 2, parts[0] - parts[1])

    init = {"sum": torch.zeros(x.shape[0], 4), "product": torch.ones(x.shape[0], 4) * 0.5}
    return scan(step, init, (x, x * 2), dim=1, reverse=True)


def mapped(x: torch.Tensor) -> Any:
    scale = x.amax((0, 1))
    single = map_over(lambda row: torch.sin(row) + scale * row.shape[0], x)
    several = map_over(lambda pair, b: (pair[0] @ pair[1].T, pair[0] * b), (x, x * 2), scale)
    return single, several


def loop_of_branches(x: torch.Tensor) -> Any:
    offset = x.amax((0, 1))

    def body(row: torch.Tensor) -> torch.Tensor:
        return torch.cond(row.sum() > 0, lambda r: r * 2 + offset, lambda r: r.exp(), (row,))

    return map_over(body, x)


def constants_inside(x: torch.Tensor) -> Any:
    table = torch.tensor([1.0, 2.0, 3.0, 4.0])
    return torch.cond(
        x.sum() > 0,
        lambda a: a * table + torch.tensor(2.0),
        lambda a: a + torch.arange(4.0) + torch.ones(a.shape[1], 1),
        (x,),
    )


def random_in_a_branch(x: torch.Tensor) -> Any:
    return torch.cond(x.sum() > 1e9, lambda a: a + torch.rand(4), lambda a: a * 2, (x,))


class Experts(nn.Module):
    """Modules in branches and loops, one of them with a weight that both branches use."""

    def __init__(self) -> None:
        super().__init__()
        self.small = nn.Linear(4, 4)
        self.large = nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.Linear(8, 4))
        self.cell = nn.GRUCell(4, 4)
        self.register_buffer("threshold", torch.tensor(0.1))

    def forward(self, x: torch.Tensor) -> Any:
        y = torch.cond(
            x.mean() > self.threshold,
            lambda a: self.small(a) + self.threshold,
            lambda a: self.small(self.large(a)),
            (x,),
        )

        def step(state: torch.Tensor, row: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            following = self.cell(row, state)
            return following, following * 1

        return y, scan(step, torch.zeros(x.shape[0], 4), y.transpose(0, 1))


RIGHT: list[Function] = [
    branch,
    branch_on_a_size,
    several_results,
    nested_branch,
    countdown,
    until_a_sum,
    running_sums,
    backwards,
    mapped,
    loop_of_branches,
    constants_inside,
    random_in_a_branch,
]


@pytest.mark.parametrize("function", RIGHT, ids=function_id)
def test_control_flow(function: Function) -> None:
    assert_recorded(Calling(function), (DYNAMIC,), *EXAMPLES)


@pytest.mark.parametrize("function", RIGHT, ids=function_id)
def test_control_flow_with_static_sizes(function: Function) -> None:
    assert_recorded(Calling(function), None, (X,), (-X.abs(),), (X.abs() + 1,))


def test_modules_in_branches_and_loops() -> None:
    module = Experts().eval()
    program = assert_recorded(module, DYNAMIC, *EXAMPLES)
    names = {initializer.name for initializer in program.model_proto.graph.initializer}
    assert {"small.bias", "threshold"} <= names


def test_both_branches_stay_if_the_condition_is_a_size() -> None:
    module = Calling(branch_on_a_size)
    program = exported(module, (X,), (DYNAMIC,))
    assert program.export_report["capture"]["guards"] == []
    assert "If" in [node.op_type for node in program.model_proto.graph.node]


def integer_state(x: torch.Tensor) -> Any:
    return while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, y * 2 + i), (0, x))


def as_many_steps_as_a_size(x: torch.Tensor) -> Any:
    steps, y = while_loop(
        lambda i, y: i < x.shape[1],
        lambda i, y: (i + 2, y + x[:, 0] * i),
        (x.shape[0], x[:, 0] * 1),
    )
    return y, steps, torch.zeros(steps)


def associative_sum(x: torch.Tensor) -> Any:
    return associative_scan(torch.add, x, 1, combine_mode="generic")


def associative_recurrence(x: torch.Tensor) -> Any:
    def combine(a: Any, b: Any) -> Any:
        return a[0] * b[0], a[1] * b[0] + b[1]

    return associative_scan(combine, (x.sigmoid(), x), 0, combine_mode="generic")


def associative_maximum_from_the_end(x: torch.Tensor) -> Any:
    return associative_scan(torch.maximum, x, 1, reverse=True, combine_mode="generic")


@pytest.mark.parametrize(
    "function",
    [
        integer_state,
        as_many_steps_as_a_size,
        associative_sum,
        associative_recurrence,
        associative_maximum_from_the_end,
    ],
    ids=function_id,
)
@pytest.mark.parametrize("dynamic_shapes", [None, (DYNAMIC,)], ids=["static", "dynamic"])
def test_integers_and_associative_functions(function: Function, dynamic_shapes: Any) -> None:
    assert_recorded(Calling(function), dynamic_shapes, *EXAMPLES[: 3 if dynamic_shapes else 1])


# Branches whose results differ in size.


def different_sizes(x: torch.Tensor) -> Any:
    y = torch.cond(x.sum() > 0, lambda a: a[:, :1] * 2, lambda a: a * 3, (x,))
    return y + 1, y.sum(1), torch.zeros(y.shape[1]), y.reshape(-1)


def selected_elements(x: torch.Tensor) -> Any:
    y = torch.cond(x.sum() > 0, lambda a: a[a > 0], lambda a: a[a < 0] * 2, (x,))
    return y.sum(), torch.cat([y, y])


@pytest.mark.parametrize("function", [different_sizes, selected_elements], ids=function_id)
def test_branches_of_different_sizes(function: Function) -> None:
    examples = [(sign * value.abs(),) for (value,) in EXAMPLES for sign in (1, -1)]
    assert_recorded(Calling(function), (DYNAMIC,), *examples)
    assert_recorded(Calling(function), None, *examples[:2])


# What the recorder leaves to torch.export.

KEPT: list[torch.Tensor] = []


def different_dtypes(x: torch.Tensor) -> Any:
    return torch.cond(x.sum() > 0, lambda a: a * 2, lambda a: a.double(), (x,))


def different_ranks(x: torch.Tensor) -> Any:
    return torch.cond(x.sum() > 0, lambda a: a * 2, lambda a: a.sum(0), (x,))


def different_layouts(x: torch.Tensor) -> Any:
    return torch.cond(x.sum() > 0, lambda a: a[:1] * 2, lambda a: (a * 2).transpose(0, 1), (x,))


def different_structures(x: torch.Tensor) -> Any:
    return torch.cond(x.sum() > 0, lambda a: (a * 2,), lambda a: [a + 1], (x,))


def writes_outside(x: torch.Tensor) -> Any:
    y = x * 2
    torch.cond(x.sum() > 0, lambda a: y.add_(1).sum(), lambda a: a.sum(), (x,))
    return y


def writes_outside_through_a_view(x: torch.Tensor) -> Any:
    y = x * 2

    def write(a: torch.Tensor) -> torch.Tensor:
        y[:, 0].mul_(2)
        return a.sum()

    torch.cond(x.sum() > 0, write, lambda a: a.sum(), (x,))
    return y


def writes_to_an_operand(x: torch.Tensor) -> Any:
    y = x * 2
    torch.cond(x.sum() > 0, lambda a: a.add_(1), lambda a: a * 1, (y,))
    return y


def a_condition_that_writes(x: torch.Tensor) -> Any:
    return while_loop(lambda a: a.add_(1).sum() < 9, lambda a: (a + 1,), (x.abs(),))


def kept_outside(x: torch.Tensor) -> Any:
    kept = []

    def keep(a: torch.Tensor) -> torch.Tensor:
        kept.append(a * 3)
        return a * 2

    return torch.cond(x.sum() > 0, keep, lambda a: a * 1, (x,)) + kept[0]


def a_failure_that_is_caught(x: torch.Tensor) -> Any:
    def fail(a: torch.Tensor) -> torch.Tensor:
        raise ValueError("no")

    try:
        return torch.cond(x.sum() > 0, fail, lambda a: a * 2, (x,))
    except ValueError:
        return x * 3


def a_growing_state(x: torch.Tensor) -> Any:
    return while_loop(lambda a: a.sum() < 1, lambda a: (torch.cat([a, a]),), (x,))


def a_number_in_a_branch(x: torch.Tensor) -> Any:
    return torch.cond(x.sum() > 0, lambda a: (a * 2, 1), lambda a: (a * 3, 2), (x,))


def mapped_control_flow(x: torch.Tensor) -> Any:
    return torch.vmap(
        lambda row: torch.cond(row.sum() > 0, lambda a: a * 2, lambda a: a - 1, (row,))
    )(x)


ASIDE: list[tuple[Function, str]] = [
    (different_ranks, "the branches return tensors of different types"),
    (different_layouts, "different sizes that are not contiguous"),
    (different_dtypes, "the branches return tensors of different types"),
    (different_structures, "the branches return different structures"),
    (writes_to_an_operand, "writes to a tensor from outside"),
    (a_condition_that_writes, "writes to a tensor from outside"),
    (writes_outside, "writes to a tensor from outside"),
    (writes_outside_through_a_view, "writes to a tensor from outside"),
    (kept_outside, "is used outside of it"),
    (a_failure_that_is_caught, "ValueError in a branch or loop: no"),
    (a_growing_state, "changes the type of a loop-carried tensor"),
    (a_number_in_a_branch, "a value that is not a tensor"),
    (mapped_control_flow, "control flow in a function that torch.vmap maps"),
]


@pytest.mark.parametrize(("function", "reason"), ASIDE, ids=lambda v: getattr(v, "__name__", "_"))
def test_steps_aside(function: Function, reason: str) -> None:
    assert reason in reason_of(Calling(function), (X,), (DYNAMIC,))
