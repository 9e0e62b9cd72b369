"""x.tolist() of tensors with a dynamic size."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from .running import check


def as_tensors(x: Tensor):
    numbers: list[float] = x.tolist()
    return (
        torch.tensor(numbers) * 2,
        torch.tensor(numbers, dtype=torch.int32),
        torch.tensor([numbers]),
    )


def total(x: Tensor):
    numbers: list[float] = x.tolist()
    result = 0.0
    for number in numbers:
        result += number
    return x + result, sum(numbers), max(numbers), min(numbers)


def written_later(x: Tensor):
    y = x * 1
    numbers: list[float] = y.tolist()
    y.add_(1)
    return torch.tensor(numbers), torch.as_tensor(numbers), y


def changed(x: Tensor):
    numbers: list[float] = x.tolist()
    numbers.append(3.0)
    numbers.extend([1.0, 2.0])
    numbers.pop(0)
    numbers.insert(1, 7.5)
    return torch.tensor(numbers), numbers[-1], numbers.index(7.5), 3.0 in numbers


def in_order(x: Tensor):
    numbers: list[float] = x.tolist()
    falling = numbers.copy()
    falling.sort(reverse=True)
    numbers.sort()
    return torch.tensor(falling), torch.tensor(numbers), torch.tensor(numbers[::-1])


def truths(x: Tensor):
    flags: list[bool] = (x > 0).tolist()
    count = 0
    for flag in flags:
        if flag:
            count += 1
    return count, any(flags), all(flags), torch.tensor(flags)


def rows(x: Tensor):
    table: list[list[float]] = x.tolist()
    result = 0.0
    for row in table:
        result += row[0] * row[1]
    return result, table[1][2], torch.tensor(table), len(table)


def columns(x: Tensor):
    table: list[list[float]] = x.t().tolist()
    return torch.tensor(table), table[1][-1]


def one_column(x: Tensor):
    table: list[list[list[float]]] = x.reshape(-1, 1, 1).tolist()
    return torch.tensor(table), len(table)


def sizes(x: Tensor, y: Tensor):
    lengths: list[int] = x.tolist()
    sums: list[Tensor] = []
    start = 0
    for length in lengths:
        sums.append(y[start : start + length].sum())
        start += length
    return torch.stack(sums), y.repeat(lengths[0])


def large(x: Tensor):
    numbers: list[int] = x.tolist()
    larger: list[int] = []
    for number in numbers:
        if number > 2:
            larger.append(number)
    return torch.tensor(larger)


VECTORS = [(torch.randn(4),), (torch.randn(7),)]
TABLES = [(torch.randn(4, 3),), (torch.randn(7, 3),)]
CASES: list[Any] = [
    *((function, VECTORS) for function in (as_tensors, total, written_later, changed, in_order)),
    *((function, VECTORS) for function in (truths, one_column)),
    *((function, TABLES) for function in (rows, columns)),
    (sizes, [(torch.tensor(n), torch.randn(6)) for n in ([1, 3, 2], [1, 1, 1, 3])]),
    (large, [(torch.tensor([1, 4, 6]),), (torch.tensor([5, 1]),)]),
]


@pytest.mark.parametrize(
    ("function", "inputs"), CASES, ids=lambda value: getattr(value, "__name__", "")
)
def test_list(function: Callable[..., Any], inputs: list[tuple[Tensor, ...]]):
    shapes = [{0: "n"}, *(None for _ in inputs[0][1:])]
    check(torch.jit.script(function), inputs, shapes, opsets=(20,))


def returned(x: Tensor):
    numbers: list[float] = x.tolist()
    return numbers


def both_dynamic(x: Tensor):
    table: list[list[float]] = x.tolist()
    return len(table)


def of_ints(x: Tensor):
    numbers: list[int] = x.tolist()
    return len(numbers)


@pytest.mark.parametrize(
    ("function", "shape", "message"),
    [
        (returned, (4,), "cannot return a list of unknown length"),
        (both_dynamic, (4, 3), "more than one dynamic size"),
        (of_ints, (4,), "does not give a List\\[int\\]"),
        (returned, (4, 3), "does not give a List\\[float\\]"),
    ],
)
def test_refused(function: Callable[..., Any], shape: tuple[int, ...], message: str):
    with pytest.raises(torch.onnx.errors.OnnxExporterError, match=message):
        torch.onnx.export(
            torch.jit.script(function),
            (torch.randn(shape),),
            dynamo=True,
            verbose=False,
            dynamic_shapes=[{axis: f"n{axis}" for axis in range(len(shape))}],
        )
