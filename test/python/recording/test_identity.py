"""A program finds PyTorch's and Python's functions where it compares them or looks them up.

Its sizes are dynamic, so that functions which make numbers of sizes are replaced or intercepted.
"""

from __future__ import annotations

import copy
import enum
import math
import numbers
import pickle
import threading
from collections.abc import Callable, Iterator
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import onnx_native
import pytest
import torch
from models.calling import Calling
from models.recording import DYNAMIC, EXAMPLES, Function, assert_recorded, exported, function_id
from torch import nn
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

POOLS = {F.max_pool2d: 2, F.avg_pool2d: 3, torch.linspace: 5}
ROOTS = {math.sqrt: 2, max: 3, len: 5}
KINDS = (int, float)
NAMES = {int: "int", float: "float", torch.Tensor: "tensor"}


@pytest.fixture(autouse=True)
def way_of_example() -> Iterator[None]:
    with onnx_native.options(branches="example"):
        yield


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


class Doubling(TorchFunctionMode):
    """Doubles the results of some functions."""

    def __init__(self, *functions: Callable[..., Any]) -> None:
        super().__init__()
        self.functions = functions

    def __torch_function__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        result = function(*args, **(kwargs or {}))
        return result * 2 if function in self.functions else result


def a_mode_of_the_program(x: torch.Tensor) -> Any:
    with Doubling(F.max_pool2d, F.scaled_dot_product_attention):
        y = F.max_pool2d(x[:, None], (x.shape[1], 1))
        z = F.scaled_dot_product_attention(x, x, x, is_causal=x.shape[1] > 1)
    return y, z


def helper(x: torch.Tensor, n: Any, kind: Any = int, *, most: Any = max) -> torch.Tensor:
    return x * (2 if type(n) is kind else 3) * (2 if most is max else 3)


def defaults_of_a_helper(x: torch.Tensor) -> Any:
    return helper(x, x.shape[1])


FUNCTIONS = {"most": max, "kind": int, "pool": F.max_pool2d}
ORDER = [math.sqrt, max]


def functions_in_global_containers(x: torch.Tensor) -> Any:
    n = x.shape[1]
    found = [FUNCTIONS["most"] is max, type(n) is FUNCTIONS["kind"], ORDER[1] is max]
    found += [FUNCTIONS["pool"] is F.max_pool2d, type(range(3)) is range]
    return [x * (2 if each else 3) for each in found], x * ORDER[0](n) * ORDER[1](n, 7)


class Size(enum.IntEnum):
    SMALL = 5
    LARGE = 8


def tensors_with_other_numbers(x: torch.Tensor) -> Any:
    n = x.shape[1]
    others = [[n, np.int64(3)], [n, np.int32(3)], [n > 3, np.bool_(True)], [n, np.float64(2)]]
    others += [[n / 2, np.float64(1e300)], [n + 2**40, np.int64(1)], [n, Size.LARGE]]
    return [torch.tensor(each) for each in others], torch.view_as_real(torch.tensor([n, 1j]))


def integers_between(x: torch.Tensor) -> Any:
    n = x.shape[1]
    of_int64 = torch.linspace(0.7, 9.2, n, dtype=torch.int64)
    return of_int64, [torch.linspace(0, k * n / 2, 4, dtype=torch.int32) for k in (1, 3, -1)]


PROGRAMS = [
    defaults_of_a_helper,
    functions_in_global_containers,
    tensors_with_other_numbers,
    integers_between,
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
    assert list(FUNCTIONS.values()) == [max, int, F.max_pool2d]
    assert type(ORDER[0]) is type(ORDER[1]) is type(max)
    assert defaults.__defaults__ == (F.max_pool2d, math.sqrt, max, int)
    assert all(map(lambda a, b: a is b, defaults.__defaults__, (F.max_pool2d, math.sqrt, max, int)))


OTHERS = [Size.SMALL, complex(5), Fraction(5), Decimal(5), np.int64(5), 5.0]
COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "==": lambda n, other: n == other,
    "!=": lambda n, other: n != other,
    "in": lambda n, other: n in (3, other),
    "swapped": lambda n, other: (
        other == n if isinstance(other, (int, float, complex)) else n == other
    ),
    "of a half": lambda n, other: n / 2 == other / 2,
}


@pytest.mark.parametrize("other", OTHERS, ids=repr)
@pytest.mark.parametrize("name", COMPARISONS)
@pytest.mark.parametrize("n", [5, 4])
def test_a_size_equals_other_kinds_of_numbers(name: str, other: Any, n: int) -> None:
    """The model is valid for the example's way, as a warning says; else the export is refused."""
    module = Calling(lambda x: x * 2 if COMPARISONS[name](x.shape[0], other) else x * 3)
    x = torch.ones(n, 2)
    try:
        program = exported(module, (x,), (({0: "n"},),))
    except torch.onnx.OnnxExporterError:
        return
    torch.testing.assert_close(program(x)[0], module(x))
    guards = program.export_report["capture"]["guards"]
    assert guards or program.model_proto.graph.input[0].type.tensor_type.shape.dim[0].dim_value


class Kept(nn.Module):
    cast = int
    largest = max

    def __init__(self, *functions: Any) -> None:
        super().__init__()
        self.pool, self.most, self.root, self.kind = functions

    def chosen(self, n: Any, *, kind: Any = int, most: Any = max) -> list[bool]:
        return [type(n) is kind, kind is self.kind, most is self.most, most is max]

    def forward(self, x: torch.Tensor) -> Any:
        n = x.shape[1]
        found = [self.pool is F.max_pool2d, self.most is max, self.root is math.sqrt]
        found += [type(n) is self.kind, *self.chosen(n), type(n) is self.cast]
        found += [self.largest is max, Kept.largest is self.most]
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


def test_other_threads_may_call_attention() -> None:
    plain = F.scaled_dot_product_attention

    def program(x: torch.Tensor) -> torch.Tensor:
        calling = threading.Thread(
            target=lambda: F.scaled_dot_product_attention(*[torch.ones(3, 4)] * 3)
        )
        calling.start()
        calling.join()
        return F.scaled_dot_product_attention(x, x, x, is_causal=x.shape[1] > 2)

    assert_recorded(Calling(program), (DYNAMIC,), *EXAMPLES)
    assert F.scaled_dot_product_attention is plain


def test_modes_of_the_caller_see_the_functions() -> None:
    module = Calling(lambda x: torch.linspace(0, 1, x.shape[1]) + torch.tensor(x.shape[1]))
    with Doubling(torch.linspace, torch.tensor):
        expected = module(EXAMPLES[0][0])
        try:
            program = exported(module, EXAMPLES[0], (DYNAMIC,))
        except torch.onnx.OnnxExporterError:
            return
    torch.testing.assert_close(program(*EXAMPLES[0])[0], expected)


def test_copies_of_functions() -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        kept = copy.deepcopy({"root": math.sqrt, "most": max})
        assert kept["root"] is math.sqrt
        assert kept["most"] is max
        assert pickle.loads(pickle.dumps(math.sqrt)) is math.sqrt
        return x * kept["root"](x.shape[1])

    assert_recorded(Calling(program), (DYNAMIC,), *EXAMPLES)
