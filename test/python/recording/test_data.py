"""Native capture of programs that give weights other contents: weight.data = ..."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from models.recording import assert_equal_to_eager, assert_native, exported, reason_of
from torch import nn

X = torch.randn(3, 4, generator=torch.Generator().manual_seed(0))


class Layers(nn.Module):
    """Two layers, a mask and a buffer, on which a function runs."""

    def __init__(self, function: Callable[[Any, torch.Tensor], Any]) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.a = nn.Linear(4, 4)
        self.b = nn.Linear(4, 4)
        self.register_buffer("mask", torch.ones(4, 4).triu())
        self.register_buffer("mean", torch.zeros(4))
        self.function = function

    def forward(self, x: torch.Tensor) -> Any:
        return self.function(self, x)


def masked_in_place(m: Any, x: torch.Tensor) -> Any:
    m.a.weight.data *= m.mask
    return m.a(x)


def masked(m: Any, x: torch.Tensor) -> Any:
    m.a.weight.data = m.a.weight.data * m.mask
    return m.a(x)


def chosen(m: Any, x: torch.Tensor) -> Any:
    m.a.weight.data = torch.where(m.mask > 0, m.a.weight.data, 0.0)
    m.b.weight.data = nn.functional.normalize(m.b.weight.data.clamp(-0.3, 0.3), dim=1)
    return m.b(m.a(x))


def put_back(m: Any, x: torch.Tensor) -> Any:
    before = m.a.weight.data
    m.a.weight.data = m.a.weight.data * 2
    y = m.a(x)
    m.a.weight.data = before
    return y, m.a(x)


def twice(m: Any, x: torch.Tensor) -> Any:
    m.a.weight.data = m.a.weight.data + m.mask
    y = m.a(x)
    m.a.weight.data = m.a.weight.data * m.mask
    return m.a(y)


def old_view(m: Any, x: torch.Tensor) -> Any:
    row, alias, late = m.a.weight[0], m.a.weight.detach(), m.a.weight.data
    m.a.weight.data = m.a.weight.data * 2
    return x * row, x @ alias, x @ late, m.a(x), m.a.weight.t() @ x.t()


def of_another(m: Any, x: torch.Tensor) -> Any:
    m.a.weight.data = m.b.weight.data
    return m.a(x) + m.b(x)


def written_later(m: Any, x: torch.Tensor) -> Any:
    new = m.a.weight.data * m.mask
    m.a.weight.data = new
    new.mul_(3)
    y = m.a(x)
    m.a.weight.data.add_(1)
    return y, m.a(x), new


def of_the_input(m: Any, x: torch.Tensor) -> Any:
    m.mean.data = x.mean(0)
    return x - m.mean, m.mean * 2


def of_an_input(m: Any, x: torch.Tensor) -> Any:
    x.data = x.data * 2
    return m.a(x)


PROGRAMS = [
    *(masked_in_place, masked, chosen, put_back, twice, old_view, of_another, written_later),
    *(of_the_input, of_an_input),
]


@pytest.mark.parametrize("function", PROGRAMS, ids=lambda f: f.__name__)
def test_recorded(function: Callable[[Any, torch.Tensor], Any]) -> None:
    module = Layers(function).eval()
    before = copy.deepcopy(module.state_dict())
    program = exported(module, (X,), ({0: "batch"},))
    assert_native(program)
    after = module.state_dict()
    assert all(torch.equal(after[name], value) for name, value in before.items())
    for x in (X, torch.randn(5, 4)):
        assert_equal_to_eager(program, copy.deepcopy(module), (x,))


def of_another_shape(m: Any, x: torch.Tensor) -> Any:
    m.a.weight.data = m.a.weight.data[:2]
    return x @ m.a.weight.t()


def transposed(m: Any, x: torch.Tensor) -> Any:
    m.a.weight.data = m.a.weight.data.t()
    return m.a(x)


class Tied(Layers):
    def __init__(self, function: Callable[[Any, torch.Tensor], Any]) -> None:
        super().__init__(function)
        self.b.weight = nn.Parameter(self.a.weight.data)  # another tensor over the same memory


@pytest.mark.parametrize(
    ("module", "reason"),
    [
        (Layers(of_another_shape), "of another dtype, shape or layout"),
        (Layers(transposed), "of another dtype, shape or layout"),
        (Tied(masked), "which shares memory with another one"),
    ],
    ids=["shape", "layout", "tied"],
)
def test_refused(module: nn.Module, reason: str) -> None:
    assert reason in reason_of(module.eval(), (X,), ({0: "batch"},))


def set_input(m: Any, x: torch.Tensor) -> Any:
    x.set_(x * 2)
    return x + 1


def data_of_input(m: Any, x: torch.Tensor) -> Any:
    y = x.view(-1)
    x.data = torch.ones(3, 4)
    return y + x.view(-1)


def data_of_input_put_back(m: Any, x: torch.Tensor) -> Any:
    before = x.data
    x.data = x.data * 2
    y = x + 1
    x.data = before
    return y


def data_of_a_result(m: Any, x: torch.Tensor) -> Any:
    y = x * 1
    y.data = torch.ones(3, 4)
    return y + x


@pytest.mark.parametrize(
    ("function", "is_lost"),
    [
        (set_input, True),
        (data_of_input, True),
        (data_of_input_put_back, False),
        (data_of_a_result, False),
    ],
)
def test_the_caller_learns_that_an_input_keeps_its_contents(function: Any, is_lost: bool) -> None:
    module = Layers(function).eval()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        program = exported(module, (X.clone(),))
    assert_native(program)
    torch.testing.assert_close(program(X)[0], module(X.clone()))
    lost = "the update of input x is not part of the ONNX model"
    assert any(lost in str(each.message) for each in caught) == is_lost
