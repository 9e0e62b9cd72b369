"""Opset 11, the oldest: what opset 12 changed is composed from older operators."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import onnxruntime
import pytest
import torch
from models import routes
from torch import Tensor

INTEGERS = [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64]


def check(function: Callable[..., Any], *examples: tuple[Tensor, ...], dynamic: Any = None) -> None:
    routes.check(function, examples[0], "fx", *examples[1:], dynamic=dynamic, opset=11)


def integers(dtype: torch.dtype, *shape: int, seed: int = 0) -> Tensor:
    low = 0 if dtype is torch.uint8 else -100
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(low, 100, shape, generator=generator).to(dtype)


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_extrema_of_integers(dtype: torch.dtype) -> None:
    def function(x: Tensor, y: Tensor) -> Any:
        both = torch.maximum(x, y), torch.minimum(x, y), x.amax(1), x.amin(0), x.max(), x.min()
        return *both, x.clamp(3, 50), x.clamp(max=7), x.clamp(min=y), x.clamp(x, y), x.relu()

    examples = [(integers(dtype, n, 4), integers(dtype, n, 4, seed=1)) for n in (3, 5)]
    check(function, *examples, dynamic=({0: "n"}, {0: "n"}))


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_shifts_and_inversion(dtype: torch.dtype) -> None:
    def function(x: Tensor, y: Tensor) -> Any:
        return x >> 2, x >> y, x << y, 5 >> y, ~x, x.bitwise_not() >> 1

    examples = [(integers(dtype, n, 4), torch.arange(4).to(dtype) * 3) for n in (3, 5)]
    check(function, *examples, dynamic=({0: "n"}, {}))


def test_inversion_of_limits() -> None:
    for dtype in INTEGERS:
        limits = torch.iinfo(dtype)
        x = torch.tensor([limits.min, limits.max, 1, limits.max // 2], dtype=dtype)
        check(lambda x: (~x, x >> 1, x >> 7), (x,))


def test_extremes_of_int64() -> None:
    limits = torch.iinfo(torch.int64)
    x = torch.tensor([limits.min, limits.max, 2**53 + 1, -1, 0])

    def function(x: Tensor, y: Tensor) -> Any:
        return torch.maximum(x, y), torch.minimum(x, y), x.clamp(-1, 2**53)

    check(function, (x, x.flip(0)))


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64], ids=str)
def test_extrema_of_floats(dtype: torch.dtype) -> None:
    x = torch.tensor([math.nan, -math.inf, -0.0, 0.5, 3.0, math.inf], dtype=dtype)

    def function(x: Tensor) -> Any:
        limits = x.clamp(-1, 2), x.clamp(min=0.25), x.clamp(max=0.25), x.clip(2, 1)
        return *limits, torch.maximum(x, x.flip(0)), torch.minimum(x, x.flip(0))

    check(function, (x,))


def test_comparisons_of_nan() -> None:
    x = torch.tensor([math.nan, 1.0, -math.inf, 0.0])
    y = torch.tensor([0.0, 1.0, math.nan, -0.0])
    check(lambda x, y: (x >= y, x <= y, y >= 0, x <= math.inf, x > y, x < y), (x, y))


@pytest.mark.parametrize("dtype", [torch.int8, torch.int64, torch.float16, torch.bool], ids=str)
def test_comparisons(dtype: torch.dtype) -> None:
    x, y = integers(torch.int64, 3, 4).to(dtype), integers(torch.int64, 4, seed=1).to(dtype)
    check(lambda x, y: (x >= y, x <= y, x >= 1), (x, y))


def test_powers() -> None:
    def function(x: Tensor, i: Tensor) -> Any:
        return x**2, x**3.5, x**i, 2**x, x**-1, torch.pow(x.double(), i)

    check(function, (torch.rand(3, 4) + 0.5, integers(torch.int32, 3, 4) % 4))


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64], ids=str)
def test_powers_of_integers(dtype: torch.dtype) -> None:
    check(lambda x: (x**2, x**3, x**7, x**1), (integers(dtype, 3, 4),))


EQUATIONS = [
    ("ij,jk->ik", (3, 4), (4, 5)),
    ("bij,bjk->bik", (2, 3, 4), (2, 4, 5)),
    ("bhqd,bhkd->bhqk", (2, 3, 4, 5), (2, 3, 6, 5)),
    ("bqhd,bkhd->bhqk", (2, 4, 3, 5), (2, 6, 3, 5)),
    ("ij,kl->", (3, 4), (5, 6)),
    ("ij,kl->iljk", (3, 4), (5, 6)),
    ("i,j->ij", (3,), (4,)),
    ("i,i->", (3,), (3,)),
    ("ii->i", (3, 3)),
    ("ii->", (3, 3)),
    ("ijij->ji", (3, 4, 3, 4)),
    ("ijk->kj", (2, 3, 4)),
    ("ij,jk,kl->il", (2, 3), (3, 4), (4, 5)),
    ("ij,ik,il->jkl", (2, 3), (2, 4), (2, 5)),
    ("abcd,cdef->abef", (2, 3, 4, 5), (4, 5, 3, 2)),
    ("...ij,...jk->...ik", (2, 3, 4), (2, 4, 5)),
    ("bi,oij,bj->bo", (2, 3), (5, 3, 4), (2, 4)),
    ("iij,jk->ik", (3, 3, 4), (4, 2)),
]


@pytest.mark.parametrize("equation", EQUATIONS, ids=[equation[0] for equation in EQUATIONS])
def test_einsum(equation: tuple[Any, ...]) -> None:
    text, *shapes = equation
    generator = torch.Generator().manual_seed(0)
    operands = tuple(torch.randn(shape, generator=generator) for shape in shapes)
    check(lambda *xs: torch.einsum(text, *xs), operands)


def test_einsum_with_dynamic_sizes() -> None:
    def function(x: Tensor, y: Tensor) -> Tensor:
        return torch.einsum("bqhd,bkhd->bhqk", x, y)

    examples = [(torch.randn(b, n, 2, 3), torch.randn(b, n + 1, 2, 3)) for b, n in ((2, 3), (4, 5))]
    check(function, *examples, dynamic=({0: "b", 1: "q"}, {0: "b", 1: "k"}))


def test_last_of_equal_elements() -> None:
    x = torch.tensor([[1, 2, 2, 1, 0], [3, 3, 1, 1, 3], [5, 4, 3, 2, 1]])
    check(lambda x: (*x.mode(1), *x.mode(0), x.argmax(1), x.argmin(0)), (x,))


def test_pooling_of_bytes() -> None:
    x = integers(torch.uint8, 1, 2, 6, 6)
    check(lambda x: torch.nn.functional.max_pool2d(x, 2), (x,))


def test_activations() -> None:
    def function(x: Tensor) -> Any:
        f = torch.nn.functional
        return f.celu(x, 0.7), f.celu(x), f.relu6(x), f.hardtanh(x), f.gelu(x), f.mish(x)

    check(function, (torch.randn(3, 4),))


def test_triangles() -> None:
    check(
        lambda x: (x.tril(), x.triu(1), x.tril(-1)),
        (torch.randn(3, 4),),
        (torch.randn(5, 4),),
        dynamic=({0: "n"},),
    )


def test_dropout_in_training() -> None:
    program = torch.onnx.export(
        lambda x: torch.nn.functional.dropout(x, 0.25, training=True),
        (torch.ones(100, 100),),
        opset_version=11,
        verbose=False,
    )
    (result,) = program(torch.ones(100, 100))
    assert set(result.unique().tolist()) == {0.0, torch.tensor(1 / 0.75).item()}
    assert abs((result == 0).float().mean().item() - 0.25) < 0.03


def test_compositions_of_several_rounds() -> None:
    """The constants of a round that nothing uses any more are gone in the next one."""

    def function(x: Tensor, count: Tensor) -> Any:
        return x.cumprod(-3), x.repeat_interleave(count.item(), dim=-2)

    x = torch.rand(4, 4, 1)
    routes.check(function, (x, torch.tensor(2)), "native", opset=13)


def test_reshapes_of_nothing() -> None:
    """The models load with ONNX Runtime's default optimizations."""
    rows = torch.nn.Embedding(5, 4)

    def of_nonzero(x: Tensor) -> Any:
        found = rows(torch.nonzero(x))
        found.unsqueeze(-2).fill_(1.0)
        return found.unsqueeze(-2) + 1, found.flatten(0, 1)

    cases: list[tuple[Callable[..., Any], Tensor, Any]] = [
        (lambda x: (x.flatten(1), x.transpose(1, 2).flatten(1)), torch.rand(0, 2, 4), ({1: "n"},)),
        (lambda x: x.reshape(x.shape[0], 3, -1), torch.rand(2, 0, 3), ({0: "n"},)),
        (of_nonzero, torch.tensor(2.0), None),
    ]
    for function, x, dynamic in cases:
        model = routes.check(function, (x,), "native", dynamic=dynamic, opset=11)
        session = onnxruntime.InferenceSession(model.SerializeToString())
        name = session.get_inputs()[0].name
        expected = function(x)
        expected = expected if isinstance(expected, tuple) else (expected,)
        for result, wanted in zip(session.run(None, {name: x.numpy()}), expected, strict=True):
            assert result.shape == wanted.shape


@pytest.mark.parametrize("squares", [False, True])
def test_reshapes_of_rows_that_may_be_none(*, squares: bool) -> None:
    """ONNX Runtime's optimizations make no -1 of a size beside a copied 0."""

    def function(x: Tensor) -> Tensor:
        rows = x[-2:3, 0, -1:100]
        rows = rows @ rows.mT if squares else rows
        return rows.view(rows.shape[0], rows.shape[1] * rows.shape[2])

    def example(size: int) -> Tensor:
        return torch.rand(size, 1, size, 4)

    model = routes.check(function, (example(4),), "native", dynamic=({0: "m", 2: "m"},), opset=13)
    session = onnxruntime.InferenceSession(model.SerializeToString())
    for size in (2, 3, 5, 7):
        (result,) = session.run(None, {session.get_inputs()[0].name: example(size).numpy()})
        assert result.shape == function(example(size)).shape


@pytest.mark.parametrize("opset", [11, 13])
def test_reshapes_to_several_new_sizes_that_may_be_none(opset: int) -> None:
    """Each may be 0, and none has a place where a 0 copies it."""

    def function(x: Tensor) -> Tensor:
        x = x[3:, :, 3:]
        return x.reshape(x.shape[0] * 2, x.shape[2] * 3)

    examples = [(torch.rand(n, 6, m),) for n, m in ((5, 7), (6, 4), (3, 7), (5, 3), (3, 3))]
    dynamic = ({0: "n", 2: "m"},)
    model = routes.check(
        function, examples[0], "native", *examples[1:], dynamic=dynamic, opset=opset
    )
    session = onnxruntime.InferenceSession(model.SerializeToString())  # with its optimizations
    for example in examples:
        names = [each.name for each in session.get_inputs()]
        feeds = {name: value.numpy() for name, value in zip(names, example, strict=True)}
        torch.testing.assert_close(
            torch.from_numpy(session.run(None, feeds)[0]), function(*example)
        )
