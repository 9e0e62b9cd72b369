"""Rows of csrc/ops/program/control_flow.cpp: programs with branches and loops."""

import torch
from torch._higher_order_ops.map import map as map_over
from torch._higher_order_ops.scan import scan
from torch._higher_order_ops.while_loop import while_loop
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

from ops.row import Case, Row, floats, integers


def branch(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Branches that use an outer value, with different sizes."""
    return torch.cond(
        x.sum() > 0, lambda a, b: torch.sin(a) + b, lambda a, b: torch.cos(a) - 2 * b, (x, y)
    )


def nested_branch(x: torch.Tensor) -> torch.Tensor:
    """A nested branch; one branch returns its input."""

    def inner(a: torch.Tensor) -> torch.Tensor:
        return torch.cond(a.max() > 1, lambda b: b * 2, lambda b: b.clone(), (a,))

    return torch.cond(x.sum() > 0, inner, lambda a: -a, (x,))


def countdown(n: torch.Tensor, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """A loop over a tensor and a counter."""
    return while_loop(lambda i, a: i.sum() > 0, lambda i, a: (i - 1, a * 1.5 + 1), (n, x))


def running_sums(start: torch.Tensor, xs: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """A loop-carried state and a result per step, which also uses an outer value."""
    weight = start * 0.5

    def step(carry: torch.Tensor, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        following = carry + x * weight
        return following, torch.relu(following)

    return scan(step, start, xs)


def backwards(start: torch.Tensor, xs: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """From the last element of the second dimension to the first."""
    return scan(lambda c, x: (c + x, c * x), start, xs, dim=1, reverse=True)


def running_sums_from_zero(xs: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """A loop over the rows of the input."""
    return scan(lambda c, x: (c + x, c * x), torch.zeros_like(xs[0]), xs)


def mapped(xs: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Maps a function over rows, with a constant argument."""
    return map_over(lambda x, a: torch.sin(x) + a, xs, y)  # type: ignore[arg-type, operator]


def biased_attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """Scores with a position bias and a causal mask."""
    mask = create_block_mask(lambda b, h, i, j: i >= j, None, None, 8, 8, device="cpu")
    return flex_attention(q, k, v, lambda s, b, h, i, j: s + 0.1 * h * (i - j), mask)  # type: ignore[return-value]


ROWS = [
    Row(
        "higher_order::cond",
        cases=(
            Case(branch, floats(3, 4), floats(3, 4, seed=1)),
            Case(branch, -floats(3, 4).abs(), floats(3, 4, seed=1)),
            Case(nested_branch, floats(3, 4).abs()),
            Case(nested_branch, 0.1 * floats(3, 4).abs()),
            Case(nested_branch, -floats(3, 4).abs()),
        ),
    ),
    Row(
        "higher_order::while_loop",
        cases=(
            Case(countdown, integers(1, low=3, high=4), floats(3, 4)),
            Case(countdown, integers(1, low=0, high=1), floats(3, 4)),
        ),
        static="the first input is a counter",
    ),
    Row(
        "higher_order::scan",
        cases=(
            Case(running_sums, floats(4), floats(5, 4, seed=1)),
            Case(backwards, floats(3), floats(3, 5, seed=1)),
            Case(running_sums_from_zero, floats(5, 4)),
        ),
    ),
    Row(
        "higher_order::flex_attention",
        cases=tuple(
            Case(biased_attention, *(floats(2, 3, 8, 4, seed=seed).to(dtype) for seed in range(3)))
            for dtype in (torch.float32, torch.float64)
        ),
    ),
    Row("higher_order::map_impl", cases=(Case(mapped, floats(3, 4), floats(4, seed=1)),)),
]
