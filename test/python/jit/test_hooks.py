"""Hooks of scripted modules, which a call of the module runs."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from .running import check

X = torch.tensor([[1.0, -2.0], [0.5, 3.0]])


class Scaled(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.tensor([2.0, 3.0]))

    def forward(self, x: Tensor) -> Tensor:
        return x * self.scale


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scaled = Scaled()

    def forward(self, x: Tensor) -> Tensor:
        return self.scaled(x) + x.size(0)


def with_scale(self: Any, given: tuple[Tensor]) -> tuple[Tensor]:
    return (given[0] + 10.0,)


def without_tuple(self: Any, given: tuple[Tensor]) -> Tensor:
    return given[0].relu()


def asks(self: Any, given: tuple[Tensor]) -> None:
    assert given[0].size(1) == 2


def of_input(self: Any, given: tuple[Tensor], result: Tensor) -> Tensor:
    return result - given[0]


def branches(self: Any, given: tuple[Tensor], result: Tensor) -> Tensor:
    if bool(result.sum() > 0):
        return result * 2.0
    return result


PRE = (with_scale, without_tuple, asks)


@pytest.mark.parametrize("inner", [False, True], ids=["outer", "inner"])
@pytest.mark.parametrize(
    "hooks",
    [
        (with_scale,),
        (without_tuple,),
        (asks,),
        (of_input,),
        (branches,),
        (*PRE, of_input, branches),
    ],
    ids=lambda hooks: "+".join(hook.__name__ for hook in hooks),
)
def test_hooks(hooks: tuple[Any, ...], inner: bool) -> None:
    model = Model().eval()
    module = model.scaled if inner else model
    for hook in hooks:
        if hook in PRE:
            module.register_forward_pre_hook(hook)
        else:
            module.register_forward_hook(hook)
    check(torch.jit.script(model), [(X,), (-X[:1],)], ({0: "n"},))


class Pair(nn.Module):
    def forward(self, x: Tensor, number: int = 2) -> tuple[Tensor, Tensor]:
        return x * number, x


def swapped(self: Any, given: tuple[Tensor, int]) -> tuple[Tensor, int]:
    return given[0] + 1.0, given[1] * 3


def first_of(
    self: Any, given: tuple[Tensor, int], results: tuple[Tensor, Tensor]
) -> tuple[Tensor, Tensor]:
    return results[1] * given[1], results[0]


def test_several_arguments_and_results() -> None:
    model = Pair()
    model.register_forward_pre_hook(swapped)
    model.register_forward_hook(first_of)
    check(torch.jit.script(model), [(X, 4)])
