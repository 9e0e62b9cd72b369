"""Counts that a program declares equal: the model fails where they differ, as eager does."""

from __future__ import annotations

import itertools
import pathlib
from collections.abc import Callable, Sequence
from typing import Literal

import onnx_native
import pytest
import torch
from models.calling import Calling

Tensor = torch.Tensor
Results = tuple[Tensor, ...]
Program = Callable[[Tensor, Tensor], Results]


def equal(i: Tensor, j: Tensor) -> tuple[Tensor, Tensor]:
    torch._check(i.shape[0] == j.shape[0])
    return i, j


def rows(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    return equal(x.nonzero(), y.nonzero())


def places(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    return equal(x.nonzero()[:, 0], y.nonzero()[:, 0])


def add(x: Tensor, y: Tensor) -> Results:
    i, j = rows(x, y)
    return x.sum(), i + j


def add_first(x: Tensor, y: Tensor) -> Results:
    i, j = x.nonzero(), y.nonzero()
    total = i + j
    equal(i, j)
    return (total,)


def apart(x: Tensor, y: Tensor) -> Results:
    i, j = rows(x, y)
    return i * 2, j * 3


def unused(x: Tensor, y: Tensor) -> Results:
    first = x.nonzero() * 2
    equal(first, y.nonzero())
    return (first,)


def no_rows(x: Tensor, y: Tensor) -> Results:
    i, j = rows(x, y)
    return (i.sum() + j.sum(),)


def choose(x: Tensor, y: Tensor) -> Results:
    i, j = rows(x, y)
    return (torch.where(i > j, i, j),)


def stack(x: Tensor, y: Tensor) -> Results:
    return (torch.stack([x.nonzero(), y.nonzero()]),)


def cat(x: Tensor, y: Tensor) -> Results:
    return (torch.cat([x.nonzero(), y.nonzero()], 1),)


def matmul(x: Tensor, y: Tensor) -> Results:
    i, j = rows(x, y)
    return (i.float().T @ j.float(),)


def put(x: Tensor, y: Tensor) -> Results:
    i, j = places(x, y)
    return (torch.zeros(9).index_put((i,), j.float()),)


def get(x: Tensor, y: Tensor) -> Results:
    i, j = places(x, y)
    return (torch.arange(81).view(9, 9)[i, j],)


def three(x: Tensor, y: Tensor) -> Results:
    i, j = places(x, y)
    _, k = equal(j, (x * 2).nonzero()[:, 0])
    return i + j + k, i - k


def size(x: Tensor, y: Tensor) -> Results:
    i, j = equal(x.nonzero()[:, 0], y[y > 0])
    return torch.zeros(j.shape[0]) + i, j.view(-1, 1).expand(i.shape[0], 3)


def extremes(x: Tensor, y: Tensor) -> Results:
    i, j = places(x, y)
    return torch.minimum(i, j), torch.maximum(i, j)


def grid(x: Tensor, y: Tensor) -> Results:
    i, j = places(x, y)
    return (i[:, None] - j[None, :],)


PROGRAMS = [add, add_first, apart, unused, no_rows, choose, stack, cat, matmul, put, get, three]
PROGRAMS += [size, extremes, grid]


def vector(length: int, count: int) -> Tensor:
    """Returns a vector of which the first elements are not zero."""
    return torch.arange(1.0, length + 1) * (torch.arange(length) < count)


def exported(program: Program, *inputs: Tensor) -> Callable[..., Sequence[Tensor]]:
    sizes = tuple({0: f"n{i}"} for i in range(len(inputs)))
    model = torch.onnx.export(
        Calling(program), inputs, dynamo=True, verbose=False, dynamic_shapes=(sizes,)
    )
    assert model is not None
    return model


def outcome(function: Callable[..., Sequence[Tensor]], *inputs: Tensor) -> Results | None:
    try:
        return tuple(function(*inputs))
    except Exception:  # what fails where is what the test compares
        return None


def assert_equal_to_eager(capture: Literal["native", "torch.export"], program: Program) -> None:
    with onnx_native.options(capture=capture):
        model = exported(program, vector(5, 3), vector(6, 3))
    for a, b in itertools.product(range(4), repeat=2):
        inputs = vector(5, a), vector(6, b)
        results, expected = outcome(model, *inputs), outcome(program, *inputs)
        # torch.export's program fails where counts of 1 would be broadcast.
        assert (results is None) == (expected is None), (a, b)
        if expected is not None:
            torch.testing.assert_close(results, expected, msg=f"{a}, {b}")


@pytest.mark.parametrize("program", PROGRAMS)
def test_counts(program: Program) -> None:
    assert_equal_to_eager("torch.export", program)


@pytest.mark.parametrize("program", [apart, unused, no_rows, grid])
def test_counts_by_the_native_capture(program: Program) -> None:
    assert_equal_to_eager("native", program)


def test_a_count_that_is_the_size_of_an_input() -> None:
    def program(x: Tensor, y: Tensor) -> Results:
        i, _ = equal(x.nonzero()[:, 0], y)
        return (i * 2,)

    with onnx_native.options(capture="torch.export"):
        model = exported(program, vector(5, 3), vector(3, 3))
    for a, b in itertools.product(range(1, 4), repeat=2):
        inputs = vector(5, a), vector(b, b)
        results, expected = outcome(model, *inputs), outcome(program, *inputs)
        assert (results is None) == (expected is None), (a, b)
        if expected is not None:
            torch.testing.assert_close(results, expected)


def test_an_archive(tmp_path: pathlib.Path) -> None:
    sizes = ({0: torch.export.Dim.DYNAMIC}, {0: torch.export.Dim.DYNAMIC})
    inputs = (vector(5, 3), vector(6, 3))
    program = torch.export.export(Calling(apart), inputs, dynamic_shapes=(sizes,))
    torch.export.save(program, tmp_path / "program.pt2")
    text = onnx_native._C.read_pt2(str(tmp_path / "program.pt2"))
    assert text == onnx_native._C.read(program)
    assert "aten::_assert_scalar(%" in text


def test_no_node_without_an_equation() -> None:
    def program(x: Tensor, y: Tensor) -> Results:
        i = x.nonzero()
        torch._check(i.shape[0] <= x.shape[0])
        return i * 2, y[y > 0]

    with onnx_native.options(capture="torch.export"):
        model = exported(program, vector(5, 3), vector(6, 3))
    assert not {"Equal", "Reshape"} & {node.op_type for node in model.model.graph}  # type: ignore[attr-defined]
