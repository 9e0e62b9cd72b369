"""Native capture of scripted code, hooks, parametrizations, compiled and checkpointed modules."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from models.calling import Calling
from models.recording import (
    DYNAMIC,
    EXAMPLES,
    LARGER,
    SINGLE,
    X,
    assert_equal_to_eager,
    assert_native,
    assert_recorded,
    exported,
    reason_of,
)
from torch import nn
from torch.nn.utils import parametrizations, parametrize, prune
from torch.utils.checkpoint import checkpoint

# Scripted code.


@torch.jit.script
def scripted(x: torch.Tensor, k: int) -> torch.Tensor:
    y = x * k + x.size(1)
    if k > 1:
        y = torch.cat([y, y * x.size(0)], 1)
    for i in range(k):
        y = y + i
    return y.reshape(x.size(0), -1)


@torch.jit.script
def branch_on_data(x: torch.Tensor) -> torch.Tensor:
    if bool(x.sum() > 0):
        x = x * 2
    return x


class Inner(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 3)
        self.norm = nn.LayerNorm(3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.norm(self.layer(x)).relu()


class Outer(nn.Module):
    def __init__(self, inner: Any) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.inner(x) + x.shape[1]


# Modules whose weights are computed.


class Symmetric(nn.Module):
    def forward(self, weight: torch.Tensor) -> torch.Tensor:
        return weight.triu() + weight.triu(1).T


class Parametrized(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.symmetric = nn.Linear(4, 4)
        parametrize.register_parametrization(self.symmetric, "weight", Symmetric())
        self.normed = parametrizations.weight_norm(nn.Linear(4, 4))
        self.spectral = parametrizations.spectral_norm(nn.Linear(4, 4))
        self.orthogonal = parametrizations.orthogonal(nn.Linear(4, 4))

    def forward(self, x: torch.Tensor) -> Any:
        with parametrize.cached():
            y = self.symmetric(self.symmetric(x))
        return y, self.normed(x) + self.spectral(x), self.orthogonal(x)


class Recomputed(nn.Module):
    """Hooks compute the weights before each call."""

    def __init__(self) -> None:
        super().__init__()
        self.normed = torch.nn.utils.weight_norm(nn.Linear(4, 4))
        self.spectral = torch.nn.utils.spectral_norm(nn.Linear(4, 4))
        self.pruned = prune.l1_unstructured(nn.Linear(4, 4), "weight", amount=0.5)

    def forward(self, x: torch.Tensor) -> Any:
        return self.normed(self.normed(x)), self.spectral(x), self.pruned(x)


class Hooked(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(4, 4)
        self.second = nn.Linear(4, 4)
        self.features: list[Any] = []
        self.first.register_forward_pre_hook(lambda _, inputs: (inputs[0] + 1,))
        self.first.register_forward_hook(lambda _, inputs, output: output * 2 + inputs[0])
        self.second.register_forward_hook(
            lambda _, args, kwargs, output: output + kwargs["input"].shape[1], with_kwargs=True
        )
        self.second.register_forward_hook(lambda *_: self.features.append(_[-1].mean()))

    def forward(self, x: torch.Tensor) -> Any:
        self.features = []
        y = self.second(input=self.first(x))
        features, self.features = self.features, []
        return y, features


def compiled() -> nn.Module:
    inner: Any = torch.compile(Inner())
    return Outer(inner)


def checkpointed(reentrant: bool) -> nn.Module:
    inner = Inner()
    return Outer(Calling(lambda x: checkpoint(inner, x, use_reentrant=reentrant)))


MODULES: dict[str, Callable[[], nn.Module]] = {
    "scripted function": lambda: Calling(lambda x: scripted(x, 2) + scripted(x, 1).sum()),
    "scripted module": lambda: Outer(torch.jit.script(Inner())),
    "traced module": lambda: Outer(torch.jit.trace(Inner(), X)),
    "parametrized": Parametrized,
    "recomputed": Recomputed,
    "hooked": Hooked,
    "compiled module": compiled,
    "compiled function": lambda: Calling(torch.compile(lambda x: x * 2 + x.shape[1])),
    "checkpointed": lambda: checkpointed(False),
    "reentrant checkpoint": lambda: checkpointed(True),
}


@pytest.mark.parametrize("name", MODULES)
@pytest.mark.parametrize("dynamic", [True, False], ids=["dynamic", "static"])
def test_module(name: str, dynamic: bool) -> None:
    module = MODULES[name]().eval()
    shapes = DYNAMIC if not isinstance(module, Calling) else (DYNAMIC,)
    program = exported(module, (X,), shapes if dynamic else None)
    assert_native(program)
    examples = [(X,), (LARGER,), (SINGLE,)] if dynamic else [(X,)]
    assert_equal_to_eager(program, module, *examples)


def test_scripted_code_that_was_optimized_for_other_sizes() -> None:
    module = Calling(lambda x: scripted(x, 2))
    for _ in range(5):
        scripted(LARGER, 2)
    assert_recorded(module, (DYNAMIC,), *EXAMPLES)


def test_recomputed_weights_are_restored() -> None:
    module = Recomputed().eval()
    with torch.no_grad():
        expected = module(X)
    before = module.normed.weight
    exported(module, (X,))
    assert module.normed.weight is before
    with torch.no_grad():
        torch.testing.assert_close(module(X), expected)


def test_steps_aside() -> None:
    assert reason_of(Calling(branch_on_data), (X,), (DYNAMIC,))


def test_a_module_that_fails_where_it_knows_of_an_export() -> None:
    def masked(x: torch.Tensor, mask: torch.Tensor | None = None) -> torch.Tensor:
        if mask is None and not torch.compiler.is_compiling():
            mask = torch.ones(x.shape)
        return x * mask.shape[0]  # type: ignore[union-attr]

    assert_recorded(Calling(masked), (DYNAMIC,), *EXAMPLES)
