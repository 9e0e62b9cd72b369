"""Wraps functions in modules."""

from collections.abc import Callable
from typing import Any

import torch


class Calling(torch.nn.Module):
    """A module whose forward is a function of tensors."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: Any) -> Any:
        return self.function(*args)
