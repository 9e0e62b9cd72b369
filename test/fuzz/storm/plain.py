"""The operators of control flow as plain Python: what eager gives, without compiling anything."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch


def cond(condition: Any, yes: Callable[..., Any], no: Callable[..., Any], operands: Any) -> Any:
    return yes(*operands) if bool(condition) else no(*operands)


def while_loop(
    condition: Callable[..., Any], body: Callable[..., Any], carried: tuple[Any, ...]
) -> tuple[Any, ...]:
    carried = tuple(each.clone() for each in carried)
    while bool(condition(*carried)):
        carried = tuple(body(*carried))
    return carried


def scan(
    combine: Callable[..., Any], init: torch.Tensor, xs: torch.Tensor, *, dim: int = 0
) -> tuple[torch.Tensor, torch.Tensor]:
    """Of one carried tensor and one input."""
    results = []
    for each in xs.unbind(dim):
        init, result = combine(init, each)
        results.append(result)
    return init, torch.stack(results)


NAMES = {"cond": cond, "while_loop": while_loop, "scan": scan}
