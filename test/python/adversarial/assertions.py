"""Assertions about elements, in a module whose assertions pytest does not rewrite."""

from __future__ import annotations

import contextlib
from typing import Any

import torch


def all_are_finite(x: torch.Tensor) -> Any:
    assert torch.isfinite(x).all()
    return x + 1


def none_is_nan(x: torch.Tensor) -> Any:
    assert not torch.isnan(x).any(), "found NaN"
    return x + 2


def one_of_two(x: torch.Tensor) -> Any:
    assert x.dim() == 2 or (x == x).all()
    assert x.dim() == 3 and not (x > 1e9).any()  # noqa: PT018
    return x + 3


def of_a_mask(x: torch.Tensor) -> Any:
    mask = torch.ones_like(x[..., 0], dtype=torch.uint8)
    assert mask[0].all()
    return x * mask.unsqueeze(-1)


def packed_rows(x: torch.Tensor) -> Any:
    """Packs the positive elements of each row to the front, and checks the sizes as lists."""
    mask = x[0] > 0
    counts = mask.sum(1)
    most: Any = counts.max()
    place = (torch.arange(most) < counts[:, None]).nonzero(as_tuple=True)
    packed = x.new_zeros(mask.shape[0], most)
    packed[place] = x[0][mask]
    assert list(packed.size()) == [x.shape[1], most]
    return packed, packed.narrow(1, most - 1, 1)


HOLD = [all_are_finite, none_is_nan, one_of_two, of_a_mask, packed_rows]


class Asserts(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.checked(x) * 2

    def checked(self, x: torch.Tensor) -> torch.Tensor:
        assert torch.all(x < 2.5)
        return x


class Catches(Asserts):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        try:
            return super().forward(x)
        except AssertionError:
            return x.clamp(max=2.5)


class Suppresses(Asserts):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x
        with contextlib.suppress(AssertionError, ValueError):
            return super().forward(x)
        return y


class PassesOn(Asserts):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        try:
            return super().forward(x)
        except ImportError:
            return x
        except AssertionError as error:
            raise ValueError("too large") from error
