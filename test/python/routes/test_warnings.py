"""Warnings name the line of the user's program, however deep the package warns."""

from __future__ import annotations

import contextlib
import io
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import onnx_native
import pytest
import torch
from torch import nn

X = torch.ones(2, 3)


class Doubles(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * 2


class Fixes(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * 2 if x.shape[1] > 2 else x


def export(module: nn.Module, **options: Any) -> Any:
    return torch.onnx.export(module, (X,), dynamo=True, verbose=False, **options)


def in_training() -> None:
    export(Doubles().train())


def by_axes() -> None:
    export(Doubles().eval(), input_names=["x"], dynamic_axes={"x": {0: "n"}})


def unknown_axes() -> None:
    axes = {"x": {0: "n"}, "unknown": {0: "n"}}
    export(Doubles().eval(), input_names=["x"], dynamic_axes=axes)


def without_effect() -> None:
    export(Doubles().eval(), do_constant_folding=False)


def by_sizes() -> None:
    with onnx_native.options(branches="example"):
        export(Fixes().eval(), dynamic_shapes=({1: "n"},))


def to_a_stream() -> None:
    torch.onnx.export(Doubles().eval(), (X,), io.BytesIO(), dynamo=True, verbose=False)


def unknown_weight() -> None:
    export(Doubles().eval()).apply_weights({"weight": X})


@pytest.mark.parametrize(
    "act",
    [in_training, by_axes, unknown_axes, without_effect, by_sizes, to_a_stream, unknown_weight],
    ids=lambda act: act.__name__,
)
@pytest.mark.parametrize("capture", ["native", "torch.export"])
def test_warnings_are_at_the_users_line(act: Callable[[], None], capture: str) -> None:
    with warnings.catch_warnings(record=True) as seen, onnx_native.options(capture=capture):
        warnings.simplefilter("always")
        act()
    ours = [each for each in seen if "__path__" not in str(each.message)]
    assert {each.filename for each in ours if each.category is not FutureWarning} == {__file__}


def test_a_warning_in_a_context_of_the_user_is_at_its_line() -> None:
    @contextlib.contextmanager
    def exporting() -> Iterator[None]:
        export(Doubles().train())
        yield

    with pytest.warns(UserWarning, match="training mode") as seen, exporting():
        pass
    assert seen[0].filename == __file__
