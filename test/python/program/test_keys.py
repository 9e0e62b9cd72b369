"""Calls of a program whose dicts have their keys in another order than in the export."""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Callable
from typing import Any

import onnx_native
import pytest
import torch
from torch import Tensor, nn

X = torch.arange(4.0)
A, B = X + 1, 10 * X


@dataclasses.dataclass
class Pair:
    inner: dict[str, Tensor]
    other: Tensor


torch.export.register_dataclass(Pair)


class Difference(nn.Module):
    def __init__(self, find: Callable[[Any], Any]) -> None:
        super().__init__()
        self.find = find

    def forward(self, given: Any) -> Tensor:
        found = self.find(given)
        return found["b"] - found["a"] / 2


def defaults(items: Any) -> Any:
    return collections.defaultdict(list, items)


FORMS: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "dict": (dict, lambda d: d),
    "OrderedDict": (collections.OrderedDict, lambda d: d),
    "defaultdict": (defaults, lambda d: d),
    "in a list": (lambda items: [X + 7, dict(items)], lambda d: d[1]),
    "in a dict": (lambda items: {"k": {"l": (dict(items),)}}, lambda d: d["k"]["l"][0]),
    "in a dataclass": (lambda items: Pair(dict(items), X + 7), lambda d: d.inner),
    "of two levels": (
        lambda items: {key: {"z": value, "y": -value} for key, value in items},
        lambda d: {"a": d["a"]["z"], "b": d["b"]["z"] * 2 + d["b"]["y"]},
    ),
}


def items(a: Tensor, b: Tensor, *, reverse: bool = False) -> list[tuple[str, Tensor]]:
    given = [("b", b), ("a", a)]
    return given[::-1] if reverse else given


def called(program: Any, *args: Any, **kwargs: Any) -> Tensor:
    return program(*args, **kwargs)[0]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("capture", ["auto", "torch.export", "program"])
@pytest.mark.parametrize("name", FORMS)
def test_the_order_of_keys_does_not_matter(name: str, capture: str) -> None:
    make, find = FORMS[name]
    module = Difference(find)
    example = make(items(X, X + 3))
    if capture == "program":
        captured = torch.export.export(module, (example,))
        program = torch.onnx.export(captured, dynamo=True, verbose=False)
    else:
        with onnx_native.options(capture=capture):
            program = torch.onnx.export(module, (example,), dynamo=True, verbose=False)
    for reverse in (False, True):
        given = make(items(A, B, reverse=reverse))
        torch.testing.assert_close(called(program, given), module(given))
    onnx_native.compare(program, (make(items(A, B, reverse=True)),))


@torch.jit.script
def scripted(given: dict[str, Tensor], x: Tensor) -> Tensor:
    return given["b"] - given["a"] / 2 + x


@pytest.mark.filterwarnings("ignore")
def test_the_order_of_keys_for_a_script() -> None:
    example = dict(items(X, X + 3))
    program = torch.onnx.export(scripted, (example, X), dynamo=True, verbose=False)
    given = dict(items(A, B, reverse=True))
    torch.testing.assert_close(called(program, given, X), scripted(given, X))


@pytest.mark.filterwarnings("ignore")
def test_keywords_with_dicts() -> None:
    module = Difference(dict)
    given = {"given": dict(items(X, X + 3))}
    program = torch.onnx.export(module, (), kwargs=given, dynamo=True, verbose=False)
    other = dict(items(A, B, reverse=True))
    torch.testing.assert_close(called(program, given=other), module(other))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("capture", ["auto", "torch.export"])
def test_other_keys_are_an_error_that_names_them(capture: str) -> None:
    module = Difference(lambda d: d[0])
    with onnx_native.options(capture=capture):
        example = [dict(items(X, X + 3))]
        program = torch.onnx.export(module, (example,), dynamo=True, verbose=False)
    with pytest.raises(ValueError, match=r"the dict args\[0\]\[0\] lacks \['b'\] and .*\['c'\]"):
        program([{"a": A, "c": B}])
    with pytest.raises(ValueError, match=r"lacks \['a'\]: it needs .* \['b', 'a'\]"):
        program([{"b": A}])
    with pytest.raises(ValueError, match=r"has the new keys \['c'\]"):
        program([{"a": A, "b": B, "c": B}])
    assert called(program, [{"a": A, "b": B}]).shape == A.shape


@pytest.mark.filterwarnings("ignore")
def test_an_entry_of_none_may_be_missing() -> None:
    module = Difference(dict)
    example = {"mask": None, **dict(items(X, X + 3))}
    program = torch.onnx.export(module, (example,), dynamo=True, verbose=False)
    given = dict(items(A, B, reverse=True))
    torch.testing.assert_close(called(program, given), module(given))
