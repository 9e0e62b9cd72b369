"""Tensors that a program first keeps during an export, in whatever container.

The model is right, and neither the module nor what it refers to keeps a recorded tensor.
"""

from __future__ import annotations

import collections
import contextvars
import functools
import threading
import types
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn


class Box:
    pass


class Slots:
    __slots__ = ("v",)


class Local(threading.local):
    pass


class OwnDict(dict[int, torch.Tensor]):
    pass


def positions(n: int) -> torch.Tensor:
    return torch.arange(n).float() + 1


def entry(kept: Any, n: int) -> torch.Tensor:
    if n not in kept:
        kept[n] = positions(n)
    return kept[n]


def element(kept: Any, n: int) -> torch.Tensor:
    if not kept:
        kept.append(positions(n))
    return kept[0]


def attribute(kept: Any, n: int) -> torch.Tensor:
    if not hasattr(kept, "v"):
        kept.v = positions(n)
    return kept.v


@functools.lru_cache
def of_file(n: int) -> torch.Tensor:
    return positions(n)


def closure() -> Callable[[int], torch.Tensor]:
    kept = None

    def get(n: int) -> torch.Tensor:
        nonlocal kept
        if kept is None:
            kept = positions(n)
        return kept

    return get


def of_array(kept: Any, n: int) -> torch.Tensor:
    if kept[0] is None:
        kept[0] = positions(n)
    return kept[0]


def of_generator(kept: Any, n: int) -> torch.Tensor:
    if not hasattr(kept, "v"):
        kept.v = (each for each in [positions(n)] * 9)
    return next(kept.v)


def of_partial(kept: Any, n: int) -> torch.Tensor:
    if not hasattr(kept, "v"):
        kept.v = functools.partial(torch.mul, positions(n))
    return kept.v(1)


def of_variable(kept: Any, n: int) -> torch.Tensor:
    if kept.get(None) is None:
        kept.set((positions(n),))
    return kept.get()[0]


def of_function(_: Any, n: int) -> torch.Tensor:
    if of_function.kept is None:  # type: ignore[attr-defined]
        of_function.kept = positions(n)  # type: ignore[attr-defined]
    return of_function.kept  # type: ignore[attr-defined, no-any-return]


of_function.kept = None  # type: ignore[attr-defined]


def of_global(_: Any, n: int) -> torch.Tensor:
    global GLOBAL
    if GLOBAL is None:
        GLOBAL = positions(n)
    return GLOBAL


GLOBAL: torch.Tensor | None = None

KINDS: dict[str, tuple[Callable[[], Any], Callable[[Any, int], torch.Tensor]]] = {
    "dict": (dict, entry),
    "own dict": (OwnDict, entry),
    "OrderedDict": (collections.OrderedDict, entry),
    "defaultdict": (lambda: collections.defaultdict(list), entry),
    "UserDict": (collections.UserDict, entry),
    "list": (list, element),
    "deque": (collections.deque, element),
    "object": (Box, attribute),
    "namespace": (types.SimpleNamespace, attribute),
    "dict in a list": (lambda: [{}], lambda kept, n: entry(kept[0], n)),
    "list in an object": (
        lambda: types.SimpleNamespace(inner=[]),
        lambda kept, n: element(kept.inner, n),
    ),
    "lru_cache": (lambda: functools.lru_cache(positions), lambda kept, n: kept(n)),
    "lru_cache of the file": (lambda: None, lambda _, n: of_file(n)),
    "slots": (Slots, attribute),
    "closure": (closure, lambda kept, n: kept(n)),
    "array of objects": (lambda: np.empty(2, dtype=object), of_array),
    "generator": (Box, of_generator),
    "partial": (Box, of_partial),
    "threading.local": (Local, attribute),
    "ContextVar": (lambda: contextvars.ContextVar("kept"), of_variable),
    "function": (lambda: None, of_function),
    "global": (lambda: None, of_global),
}


class Keeps(nn.Module):
    def __init__(self, kind: str) -> None:
        super().__init__()
        make, self.get = KINDS[kind]
        self.kept = make()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.get(self.kept, x.shape[1])


@pytest.mark.parametrize("kind", KINDS)
def test_a_tensor_that_is_kept_during_an_export(kind):
    model = Keeps(kind).eval()
    program = torch.onnx.export(model, (torch.ones(2, 3),), dynamo=True, verbose=False)
    assert program.export_report["capture"]["by"] == "native"
    x = torch.randn(2, 3)
    torch.testing.assert_close(program(x)[0], x * positions(3))
    assert torch.equal(model(x), x * positions(3))


class OfClass(nn.Module):
    kept: dict[int, torch.Tensor] = {}  # noqa: RUF012

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * entry(self.kept, x.shape[1])


def test_a_container_of_the_class():
    model = OfClass().eval()
    torch.onnx.export(model, (torch.ones(2, 3),), dynamo=True, verbose=False)
    assert not OfClass.kept
    assert torch.equal(model(torch.ones(2, 3))[0], positions(3))


class KeepsResults(nn.Module):
    """What it keeps differs between calls, so it is no cache."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[torch.Tensor] = []

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        self.seen.append(y)
        return y + len(self.seen)


def test_results_that_are_kept():
    model = KeepsResults().eval()
    program = torch.onnx.export(model, (torch.ones(2, 3),), dynamo=True, verbose=False)
    assert model.seen == []
    x = torch.randn(2, 3)
    torch.testing.assert_close(program(x)[0], model(x))


class Fails(Keeps):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        super().forward(x)
        raise KeyboardInterrupt


@pytest.mark.parametrize("kind", ["list", "object", "lru_cache", "generator", "ContextVar"])
def test_nothing_is_kept_after_an_interrupt(kind):
    model = Fails(kind).eval()
    with pytest.raises(KeyboardInterrupt):
        torch.onnx.export(model, (torch.ones(2, 3),), dynamo=True, verbose=False)
    x = torch.ones(2, 3)
    assert torch.equal(Keeps.forward(model, x), x * positions(3))


class OfArray:
    def __init__(self) -> None:
        self.kept = np.empty(1, dtype=object)

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        self.kept[0] = x if self.kept[0] is None else self.kept[0] + x
        return self.kept[0]


class OfSlots:
    __slots__ = ("__kept",)

    def __init__(self) -> None:
        self.__kept: torch.Tensor | None = None

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        self.__kept = x if self.__kept is None else self.__kept + x
        return self.__kept


class BehindProperty(Slots):
    """Has a property with the name of its slot, as constants of mpmath do."""

    def __init__(self) -> None:
        vars(Slots)["v"].__set__(self, None)

    @property
    def v(self) -> torch.Tensor | None:
        return vars(Slots)["v"].__get__(self)

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        vars(Slots)["v"].__set__(self, x if self.v is None else self.v + x)
        return self.v


def of_closure() -> Callable[[torch.Tensor], torch.Tensor]:
    kept: torch.Tensor | None = None

    def add(x: torch.Tensor) -> torch.Tensor:
        nonlocal kept
        kept = x if kept is None else kept + x
        return kept

    return add


class Adds(nn.Module):
    def __init__(self, add: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.add = functools.partial(add)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.add(x) * 1.0


@pytest.mark.parametrize("make", [OfArray, OfSlots, BehindProperty, of_closure])
def test_an_export_is_no_call_of_a_program_that_keeps_its_last_result(make):
    model, x = Adds(make()).eval(), torch.randn(2, 3)
    model(torch.ones(2, 3))
    program = torch.onnx.export(model, (torch.zeros(2, 3),), dynamo=True, verbose=False)
    torch.testing.assert_close(program(x)[0], x + 1)
    assert torch.equal(model(x), x + 1)


LAST: contextvars.ContextVar[torch.Tensor] = contextvars.ContextVar("last")


class KeepsLast(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        LAST.set(x * 2)
        return LAST.get() + 1


class KeepsAndFails(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        LAST.set(torch.ones(3))
        raise ValueError("no")


def test_results_that_are_kept_elsewhere():
    model, x = KeepsLast().eval(), torch.randn(2, 3)
    program = torch.onnx.export(model, (torch.ones(2, 3),), dynamo=True, verbose=False)
    torch.testing.assert_close(program(x)[0], model(x))
    assert torch.equal(LAST.get(), x * 2)


def test_what_a_failed_program_keeps():
    with pytest.raises(torch.onnx.OnnxExporterError, match="ValueError: no"):
        torch.onnx.export(KeepsAndFails().eval(), (torch.ones(2, 3),), dynamo=True, verbose=False)
    assert torch.equal(LAST.get() + 1, torch.full((3,), 2.0))


class Branches(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(3, 4), nn.Linear(3, 4)
        self.calls: list[int] = []

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if bool(x.sum() > 0):
            return self.a(x)
        return self.b(x)


def test_attributes_after_both_ways_of_a_branch():
    """TorchScript, which stands in for such a program, leaves attributes of its own."""
    model = Branches().eval()
    before = [dict(vars(module)) for module in model.modules()]
    torch.onnx.export(model, (torch.ones(2, 3),), dynamo=True, verbose=False)
    assert [dict(vars(module)) for module in model.modules()] == before


class KeepsObject(nn.Module):
    """Makes an object of tensors, and keeps it on an attribute."""

    def __init__(self, *, once: bool) -> None:
        super().__init__()
        self.distribution: Any = None
        self.once = once

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.once:
            if self.distribution is None:
                self.distribution = torch.distributions.Normal(torch.zeros(3), torch.ones(3))
            return self.distribution.log_prob(x)
        self.distribution = torch.distributions.Normal(x, torch.ones_like(x))
        return self.distribution.mean * 2


@pytest.mark.parametrize("validates", [True, False])  # TorchDynamo turns this off
@pytest.mark.parametrize("once", [True, False])
def test_an_object_that_is_kept(once, validates, monkeypatch):
    monkeypatch.setattr(torch.distributions.Distribution, "_validate_args", validates)
    model, x = KeepsObject(once=once).eval(), torch.randn(2, 3)
    program = torch.onnx.export(model, (torch.ones(2, 3),), dynamo=True, verbose=False)
    assert model.distribution is None
    torch.testing.assert_close(program(x)[0], model(x))
