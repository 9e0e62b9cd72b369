"""State that a program keeps in its module. Every route starts with it, and leaves it as it is."""

from __future__ import annotations

import collections
import copy
import warnings
from typing import Any, NamedTuple

import numpy as np
import onnx_native
import pytest
import torch
from torch import nn

X = torch.ones(2, 3)


class Numbers:
    def __init__(self) -> None:
        self.calls = 0


def state(module: nn.Module) -> None:
    forget_calls()
    module.calls = 0
    module.is_first = True
    module.history = [0]
    module.nested = {"counts": [0]}
    module.counter = collections.Counter()
    module.array = np.zeros(1)
    module.numbers = Numbers()


class OfNumber(nn.Module):
    def count(self) -> int:
        self.calls += 1
        return self.calls


class OfFlag(nn.Module):
    def count(self) -> int:
        if self.is_first:
            self.is_first = False
            return 5
        return 7


class OfList(nn.Module):
    def count(self) -> int:
        self.history.append(1)
        return len(self.history)


class OfContainers(nn.Module):
    def count(self) -> int:
        self.nested["counts"][0] += 1
        return self.nested["counts"][0]


class OfCounter(nn.Module):
    def count(self) -> int:
        self.counter["calls"] += 1
        return self.counter["calls"]


class OfArray(nn.Module):
    def count(self) -> float:
        self.array += 1
        return float(self.array[0])


class OfObject(nn.Module):
    def count(self) -> int:
        self.numbers.calls += 1
        return self.numbers.calls


class OfNewAttribute(nn.Module):
    def count(self) -> int:
        self.last = getattr(self, "last", 0) + 1
        return self.last


class OfClass(nn.Module):
    calls_of_class = 0

    def count(self) -> int:
        OfClass.calls_of_class += 1
        return OfClass.calls_of_class


class OfInherited(nn.Module):
    total = 0

    def count(self) -> int:
        type(self).total += 1
        return type(self).total


CALLS = 0


class OfGlobal(nn.Module):
    def count(self) -> int:
        global CALLS
        CALLS += 1
        return CALLS


def counted() -> int:
    global CALLS
    CALLS += 1
    return CALLS


class OfFunction(nn.Module):
    def count(self) -> int:
        return counted()


def forget_calls() -> None:
    global CALLS
    OfClass.calls_of_class = CALLS = 0


KINDS = (
    OfNumber,
    OfFlag,
    OfList,
    OfContainers,
    OfCounter,
    OfArray,
    OfObject,
    OfNewAttribute,
    OfClass,
    OfInherited,
    OfGlobal,
    OfFunction,
)


class Plain:
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.count()  # type: ignore[attr-defined]


class Branching:
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        count = self.count()  # type: ignore[attr-defined]
        if x.sum() > 0:
            x = x * 2
        return x * count


class Looping:
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        count = self.count()  # type: ignore[attr-defined]
        while x.abs().max() > 0.5:
            x = x * 0.7
        return x * count


class Fixing:
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        count = self.count()  # type: ignore[attr-defined]
        return x * count if x.shape[0] == 2 else x * count * 1


class Arrays:
    """torch.export has it: the native capture knows no elements."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.count() + float(torch.arange(3).numpy().sum())  # type: ignore[attr-defined]


def found(value: Any) -> Any:
    """The state of a module, to compare."""
    names = "calls is_first history nested counter array last".split()
    own = {name: getattr(value, name, None) for name in names}
    own["array"] = own["array"].tolist()
    own["total"] = vars(type(value)).get("total")
    return own | {"numbers": value.numbers.calls, "others": (OfClass.calls_of_class, CALLS)}


@pytest.mark.parametrize("program", [Plain, Branching, Looping, Fixing, Arrays])
@pytest.mark.parametrize("kind", KINDS)
def test_an_export_is_no_call(kind: type, program: type) -> None:
    module: Any = type(f"{program.__name__}{kind.__name__}", (program, kind), {})()
    state(module)
    module.eval()
    before = copy.deepcopy(found(module))
    expected = copy.deepcopy(module)(X)
    forget_calls()
    if kind is OfInherited:
        del type(module).total
    shapes = ({0: "n"},) if program is Fixing else None
    exported = None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            exported = torch.onnx.export(
                module, (X,), dynamo=True, dynamic_shapes=shapes, verbose=False, verify=True
            )
        except torch.onnx.OnnxExporterError:
            assert program is not Plain
    assert found(module) == before
    if exported is not None:
        torch.testing.assert_close(exported(X)[0], expected)
        onnx_native.compare(exported)
        assert found(module) == before


class ReplacesBuffer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("steps", torch.zeros(()))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.steps = self.steps + 1
        if x.sum() > 0:
            x = x * 2
        return x / self.steps


def test_a_buffer_that_a_script_replaces() -> None:
    module = ReplacesBuffer().eval()
    steps = module.steps
    program = torch.onnx.export(module, (X,), dynamo=True, verbose=False)
    assert program is not None
    assert module.steps is steps
    torch.testing.assert_close(program(X)[0], X * 2)


class Scripted(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.calls = 0
        self.seen = [0]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        self.seen.append(self.calls)
        return x * (self.calls + len(self.seen))


@pytest.mark.parametrize("holds", [False, True])
def test_scripts_of_the_user_keep_their_attributes(holds: bool) -> None:
    script = torch.jit.script(Scripted().eval())
    module = nn.Sequential(script).eval() if holds else script
    for _ in range(2):
        program = torch.onnx.export(module, (X,), dynamo=True, verbose=False, verify=True)
        assert program is not None
        torch.testing.assert_close(program(X)[0], X * 3)
        onnx_native.compare(program)
        assert (script.calls, list(script.seen)) == (0, [0])


class Policy:
    """Keeps a distribution, as the policies of stable-baselines3 do."""

    def __init__(self) -> None:
        self.distribution: Any = None

    def of(self, x: torch.Tensor) -> Policy:
        self.distribution = torch.distributions.Normal(x, x.exp())
        return self

    def log_prob(self, x: torch.Tensor) -> torch.Tensor:
        return self.distribution.log_prob(x)


class ReadsFirst(Policy):
    def of(self, x: torch.Tensor) -> Policy:
        before = self.distribution
        super().of(x if before is None else before.mean)
        return self


class Actor(nn.Module):
    def __init__(self, policy: Policy) -> None:
        super().__init__()
        self.policy = policy

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.policy.of(x).log_prob(x * 2)


@pytest.mark.parametrize("validates", [True, False])
def test_an_object_in_a_module_keeps_tensors(
    validates: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.distributions.Distribution, "_validate_args", validates)
    actor = Actor(Policy()).eval()
    program = torch.onnx.export(actor, (X,), dynamo=True, dynamic_shapes=({0: "n"},), verbose=False)
    assert program is not None
    assert program.export_report["capture"]["by"] == "native"  # type: ignore[attr-defined]
    assert actor.policy.distribution is None
    assert "distribution" not in vars(Policy)
    for x in (X, torch.randn(5, 3)):
        torch.testing.assert_close(program(x)[0], actor(x))


def test_an_object_is_read_before_it_is_written() -> None:
    actor = Actor(ReadsFirst()).eval()
    try:
        program = torch.onnx.export(actor, (X,), dynamo=True, verbose=False)
    except torch.onnx.OnnxExporterError:
        program = None
    assert actor.policy.distribution is None
    if program is not None:
        assert program.export_report["capture"]["by"] != "native"  # type: ignore[attr-defined]
        torch.testing.assert_close(program(X)[0], Actor(ReadsFirst())(X))


class MakesItsWeight(nn.Module):
    """As weight-only layers do that unpack their weight in the first call."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("packed", torch.arange(12, dtype=torch.uint8).reshape(4, 3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if not hasattr(self, "weight"):
            self.weight = torch.from_numpy(self.packed.numpy().astype(np.float32))
        return torch.nn.functional.linear(x, self.weight)


def test_an_attribute_that_the_first_call_makes_of_weights() -> None:
    module = MakesItsWeight().eval()
    program = torch.onnx.export(
        module, (X,), dynamo=True, dynamic_shapes=({0: "n"},), verbose=False
    )
    assert program is not None
    assert program.export_report["capture"]["by"] == "native"  # type: ignore[attr-defined]
    assert not hasattr(module, "weight")
    x = torch.randn(5, 3)
    torch.testing.assert_close(program(x)[0], module(x))


class KeepsFirst(nn.Module):
    """What the first call makes depends on its input."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if not hasattr(self, "first"):
            self.first = x.sum()
        return x * self.first


def test_an_attribute_that_the_first_call_makes_of_its_input() -> None:
    module = KeepsFirst().eval()
    program = torch.onnx.export(module, (X,), dynamo=True, verbose=False)
    assert program is not None
    assert not hasattr(module, "first")
    torch.testing.assert_close(program(X * 2)[0], X * 24)


class Amount(NamedTuple):
    """A tuple that defines addition, as the tensors of brevitas do."""

    value: torch.Tensor

    def __radd__(self, other: Any) -> Any:
        return self.value + other.value


def test_a_tuple_that_defines_addition() -> None:
    class Holds(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.amount = Amount(torch.ones(3))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + self.amount.value

    program = torch.onnx.export(Holds().eval(), (X,), dynamo=True, verbose=False, verify=True)
    assert program is not None
    torch.testing.assert_close(program(X)[0], X + 1)
