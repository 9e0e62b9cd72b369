"""Gives modules their state back after runs that are not the user's."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch


def restore_numbers(model: Any) -> Callable[[], None]:
    """Returns a function that gives attributes of modules their numbers back.

    A program may count its calls; a capture that fails is not a call.
    """
    modules = model.modules() if isinstance(model, torch.nn.Module) else ()
    before = [
        (
            vars(module),
            {key: value for key, value in vars(module).items() if type(value) in (int, float)},
        )
        for module in modules
    ]

    def restore() -> None:
        for attributes, numbers in before:
            for key, number in numbers.items():
                if type(attributes.get(key)) in (int, float):
                    attributes[key] = number

    return restore


@contextmanager
def unchanged(model: Any) -> Iterator[None]:
    """Gives buffers and numbers of the module their values back."""
    restore = restore_numbers(model)
    buffers = model.buffers() if isinstance(model, torch.nn.Module) else ()
    before = [(buffer, buffer.detach().clone()) for buffer in buffers]
    try:
        yield
    finally:
        restore()
        with torch.no_grad():
            for buffer, value in before:
                buffer.copy_(value)
