"""A program finds PyTorch's and Python's functions where it compares them or looks them up.

Its sizes are dynamic, so that functions which make numbers of sizes are replaced or intercepted.
"""

from __future__ import annotations

import copy
import math
import numbers
import pickle
import threading
from collections.abc import Callable
from typing import Any

import pytest
import torch
from models.calling import Calling
from models.recording import DYNAMIC, EXAMPLES, Function, assert_recorded, function_id
from torch import nn
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

POOLS = {F.max_pool2d: 2, F.avg_pool2d: 3, torch.linspace: 5}
ROOTS = {math.sqrt: 2, max: 3, len: 5}
KINDS = (int, float)
NAMES = {int: "int", float: "float", torch.Tensor: "tensor"}


def keys_of_tables(x: torch.Tensor) -> Any:
    n = math.sqrt(x.shape[1]) + len(x)
    return x * n * POOLS.get(F.max_pool2d, 7) * ROOTS.get(math.sqrt, 7), x * ROOTS[max] * ROOTS[len]


def keys_of_own_tables(x: torch.Tensor) -> Any:
    return x * {max: 2, F.max_pool2d: 3}.get(max, 7), x * {math.sqrt: 2}.get(math.sqrt, 7)


def defaults(
    x: torch.Tensor,
    pool: Any = F.max_pool2d,
    root: Any = math.sqrt,
    most: Any = max,
    kind: Any = int,
) -> Any:
    n = x.shape[1]
    found = [pool is F.max_pool2d, root is math.sqrt, most is max, kind is int]
    found += [type(n) is kind, isinstance(n, kind)]
    return [x * (2 if each else 3) for each in found], x * most(n, 7) * root(n)


def classes_of_sizes(x: torch.Tensor) -> Any:
    n = x.shape[1]
    found = [isinstance(n, KINDS), isinstance(n, numbers.Integral), isinstance(n / 2, numbers.Real)]
    found += [isinstance(n, int | str), isinstance(n, str), isinstance(n, bool), n is n]
    found += [issubclass(type(n), int), issubclass(type(n), KINDS), type(n) in KINDS]
    found += [type(n) == int, NAMES[type(n)] == "int", NAMES.get(type(n / 2)) == "float"]  # noqa: E721
    return [x * (2 if each else 3) for each in found]


def functions_in_lists(x: torch.Tensor) -> Any:
    functions = [F.max_pool2d, math.sqrt, max, torch.linspace, torch.tensor]
    found = [each in functions for each in (F.max_pool2d, max, torch.tensor)]
    return [x * (2 if each else 3) for each in found], x * x.shape[1]


class Watching(TorchFunctionMode):
    """A mode of the program."""

    def __torch_function__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        result = function(*args, **(kwargs or {}))
        return result * 2 if function in (F.max_pool2d, F.scaled_dot_product_attention) else result


def a_mode_of_the_program(x: torch.Tensor) -> Any:
    with Watching():
        y = F.max_pool2d(x[:, None], (x.shape[1], 1))
        z = F.scaled_dot_product_attention(x, x, x, is_causal=x.shape[1] > 1)
    return y, z


PROGRAMS = [
    keys_of_tables,
    keys_of_own_tables,
    defaults,
    classes_of_sizes,
    functions_in_lists,
    a_mode_of_the_program,
]


@pytest.mark.parametrize("function", PROGRAMS, ids=function_id)
def test_functions_are_themselves(function: Function) -> None:
    assert_recorded(Calling(function), (DYNAMIC,), *EXAMPLES)
    assert defaults.__defaults__ == (F.max_pool2d, math.sqrt, max, int)
    assert all(map(lambda a, b: a is b, defaults.__defaults__, (F.max_pool2d, math.sqrt, max, int)))


class Kept(nn.Module):
    def __init__(self, *functions: Any) -> None:
        super().__init__()
        self.pool, self.most, self.root, self.kind = functions

    def chosen(self, n: Any, *, kind: Any = int, most: Any = max) -> list[bool]:
        return [type(n) is kind, kind is self.kind, most is self.most, most is max]

    def forward(self, x: torch.Tensor) -> Any:
        n = x.shape[1]
        found = [self.pool is F.max_pool2d, self.most is max, self.root is math.sqrt]
        found += [type(n) is self.kind, *self.chosen(n)]
        return [x * (2 if each else 3) for each in found], x * self.most(n, 7) * self.root(n)


@pytest.mark.parametrize(
    "functions", [(F.max_pool2d, max, math.sqrt, int), (F.avg_pool2d, min, math.log, float)]
)
def test_kept_functions(functions: Any) -> None:
    model = Kept(*functions)
    assert_recorded(model, DYNAMIC, *EXAMPLES)
    assert all(
        map(lambda a, b: a is b, (model.pool, model.most, model.root, model.kind), functions)
    )


def test_other_threads_find_the_functions_of_pytorch() -> None:
    """While programs with dynamic sizes are recorded."""
    functions: list[tuple[Any, str, Callable[..., Any]]] = [
        (owner, name, getattr(owner, name))
        for owner, names in (
            (torch, "tensor as_tensor linspace logspace hann_window tril_indices"),
            (torch.fft, "fftfreq rfftfreq"),
            (F, "max_pool1d max_pool2d avg_pool2d one_hot scaled_dot_product_attention"),
            (torch.Tensor, "new_tensor"),
        )
        for name in names.split()
    ]
    found = set[str]()

    def program(x: torch.Tensor) -> torch.Tensor:
        def look() -> None:
            found.update(
                name for owner, name, plain in functions if getattr(owner, name) is not plain
            )

        other = threading.Thread(target=look)
        other.start()
        other.join()
        return x * torch.tensor(x.shape[1]) + F.max_pool2d(x[:, None], (x.shape[1], 1))[:, 0]

    assert_recorded(Calling(program), (DYNAMIC,), *EXAMPLES)
    assert not found


def test_copies_of_functions() -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        kept = copy.deepcopy({"root": math.sqrt, "most": max})
        assert kept["root"] is math.sqrt
        assert kept["most"] is max
        assert pickle.loads(pickle.dumps(math.sqrt)) is math.sqrt
        return x * kept["root"](x.shape[1])

    assert_recorded(Calling(program), (DYNAMIC,), *EXAMPLES)
