"""Control flow operators in plain Python: eager's results without compilation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.utils import _pytree as pytree


def cond(condition: Any, yes: Callable[..., Any], no: Callable[..., Any], operands: Any) -> Any:
    return yes(*operands) if bool(condition) else no(*operands)


def while_loop(
    condition: Callable[..., Any], body: Callable[..., Any], carried: tuple[Any, ...]
) -> tuple[Any, ...]:
    carried = tuple(each.clone() for each in carried)
    while bool(condition(*carried)):
        carried = tuple(body(*carried))
    return carried


def scan(combine: Callable[..., Any], init: Any, xs: Any, *, dim: int = 0) -> tuple[Any, Any]:
    """Supports trees of carried tensors and of inputs."""
    results = []
    inputs, structure = pytree.tree_flatten(xs)
    for each in zip(*(x.unbind(dim) for x in inputs), strict=True):
        init, result = combine(init, pytree.tree_unflatten(each, structure))
        results.append(result)
    return init, pytree.tree_map(lambda *rows: torch.stack(rows, dim), *results)


def map_(body: Callable[..., Any], xs: Any, *args: Any) -> Any:
    inputs, structure = pytree.tree_flatten(xs)
    rows = zip(*(x.unbind(0) for x in inputs), strict=True)
    results = [body(pytree.tree_unflatten(row, structure), *args) for row in rows]
    return pytree.tree_map(lambda *each: torch.stack(each), *results)


def associative_scan(
    combine: Callable[..., Any], xs: torch.Tensor, dim: int, **_: Any
) -> torch.Tensor:
    rows = list(xs.unbind(dim))
    for place in range(1, len(rows)):
        rows[place] = combine(rows[place - 1], rows[place])
    return torch.stack(rows, dim)


NAMES = {
    "cond": cond,
    "while_loop": while_loop,
    "scan": scan,
    "map_": map_,
    "associative_scan": associative_scan,
}
