"""Branches on elements in a native capture: the program goes on both ways.

Where the program asks for the truth of a tensor, the rest of it depends on the answer. It runs once
more for each answer, as a branch of a condition in the model.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from onnx_native import _control_flow

_MOST_CHOICES = 3  # one after the other: the model has up to 8 copies of the program


def results(native: Any, run: Callable[[], list[Any]], choices: tuple[bool, ...] = ()) -> list[Any]:
    """Returns the flat results of the program, whose first branches go the ways of `choices`."""
    native.fork(list(choices))
    condition = None
    try:
        found = run()
    except Exception:
        condition = native.undecided()
        if condition is None or len(choices) == _MOST_CHOICES:
            raise
    if condition is None:
        if native.undecided() is not None:
            native.refuse("the program catches an exception of the capture")
        return found
    if isinstance(condition, torch.Tensor):
        condition = condition.reshape(())
        condition = condition if condition.dtype == torch.bool else condition != 0
    constants: list[dict[int, Any]] = []

    def way(choice: bool) -> list[torch.Tensor]:
        leaves = results(native, run, (*choices, choice))
        is_tensor = [isinstance(leaf, torch.Tensor) for leaf in leaves]
        constants.append({i: leaf for i, leaf in enumerate(leaves) if not is_tensor[i]})
        return [leaf for i, leaf in enumerate(leaves) if is_tensor[i]]

    merged = _control_flow.cond(native, condition, lambda: way(True), lambda: way(False))
    if constants[0] != constants[1]:
        native.refuse("the branches return different numbers")
    for i, leaf in sorted(constants[0].items()):
        merged.insert(i, leaf)
    return merged
