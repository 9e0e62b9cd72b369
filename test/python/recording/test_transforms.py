"""Native capture of torch.vmap and torch.autocast."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from models.calling import Calling
from models.recording import (
    DYNAMIC,
    EXAMPLES,
    LARGER,
    SINGLE,
    Function,
    X,
    assert_native,
    assert_recorded,
    exported,
    function_id,
    reason_of,
)
from torch import nn

# torch.vmap.


def over_rows(x: torch.Tensor) -> Any:
    return torch.vmap(lambda row: row.softmax(-1) @ row.T + row.sum())(x)


def over_another_dimension(x: torch.Tensor) -> Any:
    return torch.func.vmap(lambda column: column * 2 + column.shape[0], in_dims=-1, out_dims=1)(x)


def nested(x: torch.Tensor) -> Any:
    a, b = x[:, :, 0], x[:, :, 1]
    return torch.vmap(torch.vmap(lambda p, q: p * q + 1, (None, 0)), (0, None))(a[0], b[0])


def several_arguments(x: torch.Tensor) -> Any:
    scale = torch.arange(4.0)
    tensors = {"a": x, "b": [x.transpose(0, 1), scale]}
    mapped = torch.vmap(
        lambda t: {"sum": t["a"] + t["b"][0] * t["b"][1], "max": t["a"].amax(-1)},
        in_dims=({"a": 0, "b": [1, None]},),
        out_dims={"sum": 1, "max": 0},
    )
    return mapped(tensors)


def in_place(x: torch.Tensor) -> Any:
    def write(row: torch.Tensor) -> torch.Tensor:
        made = row * 2
        made[0] += 1
        made.mul_(row)
        return made

    return torch.vmap(write)(x)


def in_chunks(x: torch.Tensor) -> Any:
    return torch.vmap(lambda column: column.cumsum(0), in_dims=2, chunk_size=3)(x)


def indexing(x: torch.Tensor) -> Any:
    rows = torch.arange(x.shape[1])
    return torch.vmap(lambda row, i: row[i], in_dims=(1, 0))(x, rows * 0)


def of_attention(x: torch.Tensor) -> Any:
    mask = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).tril()
    return torch.vmap(lambda q: F.scaled_dot_product_attention(q, q, q, attn_mask=mask))(x)


def joined(x: torch.Tensor) -> Any:
    once = torch.ones(1, 4)
    return (
        torch.vmap(lambda row: torch.cat([row, row * 2, once]))(x),
        torch.vmap(lambda row: torch.cat([row.relu(), row], -1), in_dims=1)(x),
    )


def picked(x: torch.Tensor) -> Any:
    first = torch.zeros(1, 4, dtype=torch.int64)
    order = x.argsort(1)
    return (
        torch.vmap(lambda row: row.gather(0, first))(x),
        torch.vmap(lambda row, at: row.gather(-2, at))(x, order),
        torch.vmap(lambda row, at: torch.zeros_like(row).scatter(0, at, row))(x, order),
        torch.vmap(lambda row, at: row.scatter(0, at, 2.0))(x, order),
        torch.vmap(lambda row, at: row.scatter_add(0, at, row))(x, order * 0),
        torch.vmap(torch.vmap(lambda line, at: line.gather(0, at)))(x, order * 0),
    )


def of_networks(x: torch.Tensor) -> Any:
    weight = torch.arange(24.0).reshape(2, 4, 3)
    scale = torch.arange(4.0)
    return (
        torch.vmap(lambda row: F.conv1d(row.T, weight, padding=1))(x),
        torch.vmap(lambda row: F.conv1d(torch.stack([row.T, row.T + 1]), weight, scale[:2]))(x),
        torch.vmap(lambda row: F.layer_norm(row, (4,), scale, scale), in_dims=1)(x),
    )


def of_a_python_branch(x: torch.Tensor) -> Any:
    return torch.vmap(lambda row: row * 2 if row.dim() == 2 else row, randomness="error")(x)


class OfModule(nn.Module):
    """Maps a module with weights, and functional_call over stacked weights."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Sequential(nn.Linear(4, 3), nn.GELU())
        self.models = nn.ModuleList([nn.Linear(4, 2) for _ in range(3)])

    def forward(self, x: torch.Tensor) -> Any:
        rows = torch.vmap(self.layer)(x)
        stacked = {
            name: torch.stack([model.get_parameter(name) for model in self.models])
            for name in ("weight", "bias")
        }
        ensemble = torch.vmap(
            lambda weights, rows: torch.func.functional_call(self.models[0], weights, rows),
            (0, None),
        )
        return rows, ensemble(stacked, x[:, 0])


class Replaced(nn.Module):
    """Calls a module with other weights."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> Any:
        weights = {"weight": self.layer.weight * 2, "bias": x[0, 0]}
        return torch.func.functional_call(self.layer, weights, (x,)), self.layer(x)


MAPPED: list[Function] = [
    over_rows,
    over_another_dimension,
    nested,
    several_arguments,
    in_place,
    in_chunks,
    indexing,
    of_attention,
    joined,
    picked,
    of_networks,
    of_a_python_branch,
]


@pytest.mark.parametrize("function", MAPPED, ids=function_id)
def test_vmap(function: Function) -> None:
    assert_recorded(Calling(function), (DYNAMIC,), *EXAMPLES)


@pytest.mark.parametrize("function", MAPPED, ids=function_id)
def test_vmap_with_static_sizes(function: Function) -> None:
    assert_recorded(Calling(function), None, (X,))


@pytest.mark.parametrize("kind", [OfModule, Replaced])
def test_modules_as_functions(kind: type[nn.Module]) -> None:
    module = kind().eval()
    assert_recorded(module, DYNAMIC, *EXAMPLES)


# torch.autocast.


def of_matmul(x: torch.Tensor) -> Any:
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = x @ x.transpose(1, 2)
        return y, y.float(), y + x[:, :, :1], x * 2


def half_precision(x: torch.Tensor) -> Any:
    with torch.autocast("cpu", dtype=torch.float16):
        return torch.mm(x[0], x[0].T), x.sum(-1)


def switched_off(x: torch.Tensor) -> Any:
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = x @ x.mT
        with torch.autocast("cpu", enabled=False):
            return y.float() @ x, torch.bmm(x, x.mT)


def to_full_precision(x: torch.Tensor) -> Any:
    half = x.to(torch.bfloat16)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        return F.mse_loss(half, half * 0.5), half.softmax(-1), torch.cat([half, x]), half.prod(-1)


def inside_a_composite_operator(x: torch.Tensor) -> Any:
    with torch.autocast("cpu", dtype=torch.bfloat16):
        return torch.einsum("bij,bkj->bik", x, x), torch.tensordot(x, x[0, :, :], ([2], [1]))


def flattened(x: torch.Tensor) -> Any:
    with torch.autocast("cpu", dtype=torch.bfloat16):
        return (x.flatten(1).reshape(x.shape[0], -1, 4).contiguous() @ x.mT).flatten(1)


def attended(x: torch.Tensor) -> Any:
    with torch.autocast("cpu", dtype=torch.bfloat16):
        return F.scaled_dot_product_attention(x, x, x)


def mapped_under_autocast(x: torch.Tensor) -> Any:
    with torch.autocast("cpu", dtype=torch.bfloat16):
        return torch.vmap(lambda row: row @ row.T)(x)


class Layers(nn.Module):
    """Weights under autocast, one of them used twice."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)
        self.norm = nn.LayerNorm(4)
        self.conv = nn.Conv1d(4, 3, 3, padding=1)

    def forward(self, x: torch.Tensor) -> Any:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = self.norm(self.layer(self.layer(x).relu()))
            return y, self.conv(x.transpose(1, 2))


AUTOCAST: list[Function] = [
    of_matmul,
    half_precision,
    switched_off,
    to_full_precision,
    inside_a_composite_operator,
    flattened,
    attended,
    mapped_under_autocast,
]


def assert_close_to_eager(program: Any, module: nn.Module, *examples: torch.Tensor) -> None:
    """Compares dtypes and shapes exactly, and values up to the precision of the dtype."""
    for x in examples:
        with torch.no_grad():
            expected = torch.utils._pytree.tree_leaves(module(x))
        got = program(x)
        assert len(got) == len(expected)
        for one, other in zip(got, expected, strict=True):
            assert one.dtype == other.dtype
            torch.testing.assert_close(one, other, atol=0.05, rtol=0.05)


@pytest.mark.parametrize("function", AUTOCAST, ids=function_id)
def test_autocast(function: Function) -> None:
    module = Calling(function)
    program = exported(module, (X,), (DYNAMIC,))
    assert_native(program)
    assert_close_to_eager(program, module, X, LARGER, SINGLE)


def test_weights_under_autocast() -> None:
    module = Layers().eval()
    program = exported(module, (X,), DYNAMIC)
    assert_native(program)
    assert_close_to_eager(program, module, X, LARGER, SINGLE)
    casts = [n for n in program.model_proto.graph.node if n.op_type == "Cast"]
    assert len(casts) <= 12, "a weight that is used twice is cast once"


def test_autocast_of_the_caller_does_not_keep_what_was_recorded() -> None:
    module = Layers().eval()
    with torch.autocast("cpu", dtype=torch.bfloat16), torch.no_grad():
        before = module(X)
        program = exported(module, (X,), DYNAMIC)
        after = module(X)
    assert_native(program)
    torch.testing.assert_close(after, before)
    assert_close_to_eager(program, module, X, LARGER)


# What the recorder leaves to torch.export.


def derivative(x: torch.Tensor) -> Any:
    return torch.func.grad(lambda y: (y * y).sum())(x)


def jacobian(x: torch.Tensor) -> Any:
    return torch.func.jacrev(lambda y: y.sin())(x[0, 0])


def forward_derivative(x: torch.Tensor) -> Any:
    return torch.func.jvp(torch.sin, (x,), (x,))


def random(x: torch.Tensor) -> Any:
    return torch.vmap(lambda row: row + torch.rand(4), randomness="different")(x)


def random_once(x: torch.Tensor) -> Any:
    return torch.vmap(lambda row: F.dropout(row, 0.5), randomness="same")(x)


def elements(x: torch.Tensor) -> Any:
    def caught(row: torch.Tensor) -> torch.Tensor:
        try:
            return row * 2 if row.sum().item() > 0 else row
        except RuntimeError:
            return row * 3

    return torch.vmap(caught)(x)


def sizes_in_a_batching_rule(x: torch.Tensor) -> Any:
    return torch.vmap(lambda row: F.conv1d(row.T[None], row.T[None, :, :2]))(x)


def of_a_matrix_exponential(x: torch.Tensor) -> Any:
    with torch.autocast("cpu", dtype=torch.bfloat16):
        return torch.linalg.matrix_exp(x[:, :4])


ASIDE: list[tuple[Function, str]] = [
    (derivative, "torch.func"),
    (jacobian, "torch.func"),
    (forward_derivative, ""),
    (random, "random numbers"),
    (random_once, "random numbers"),
    (elements, ""),
    (sizes_in_a_batching_rule, "code in C++ reads the sizes"),
    (of_a_matrix_exponential, "linalg_matrix_exp"),
]


@pytest.mark.parametrize(("function", "reason"), ASIDE, ids=lambda v: getattr(v, "__name__", "_"))
def test_steps_aside(function: Function, reason: str) -> None:
    found = reason_of(Calling(function), (X,), (DYNAMIC,))
    assert found
    assert reason in found
