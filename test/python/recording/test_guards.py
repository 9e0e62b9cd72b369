"""Native capture of programs whose decisions on sizes leave a dimension dynamic."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import onnx_native
import pytest
import torch
from models.calling import Calling
from models.recording import (
    DYNAMIC,
    Function,
    X,
    assert_equal_to_eager,
    assert_native,
    assert_recorded,
    exported,
    function_id,
    reason_of,
)


@pytest.fixture(autouse=True)
def way_of_example() -> Iterator[None]:
    with onnx_native.options(branches="example"):
        yield


def of_length(n: int, batch: int = 2) -> tuple[torch.Tensor]:
    return (torch.randn(batch, n, 4, generator=torch.Generator().manual_seed(n)),)


def conditions(program: Any) -> list[str]:
    return [guard["condition"] for guard in program.export_report["capture"]["guards"]]


def doubled_if_even(x: torch.Tensor) -> Any:
    return x * 2 if x.shape[1] % 2 == 0 else x + 1


def padded_if_needed(x: torch.Tensor) -> Any:
    missing = -x.shape[1] % 4
    return torch.nn.functional.pad(x, (0, 0, 0, missing)) if missing > 0 else x * 1


def by_several_lengths(x: torch.Tensor) -> Any:
    return x * 2 if x.shape[1] in (3, 7) else x + x.shape[1]


def by_length_in_steps(x: torch.Tensor) -> Any:
    x = x + 1 if x.shape[1] != 1 else x
    x = x * 2 if x.shape[1] < 100 else x
    x = x.sin() if x.shape[1] > 2 else x
    return x.exp() if x.shape[1] <= 50 else x


def windows(x: torch.Tensor) -> Any:
    return x.reshape(x.shape[0], x.shape[1] // 4, 4, 4) if x.shape[1] // 4 == 2 else x * 2


def cropped(x: torch.Tensor) -> Any:
    start = (x.shape[1] - 4) // 2
    middle = x[:, start : start + 4].reshape(x.shape[0], -1, 4, 4)
    return middle, x[:, start:], x[:, start:-start], x[:, : start + 2]


@pytest.mark.parametrize(
    ("function", "lengths", "expected"),
    [
        (cropped, (8, 6, 13), None),
        (by_length_in_steps, (4, 3, 50), ["n > 2", "n <= 50"]),
        (doubled_if_even, (4, 6, 16), ["n % 2 == 0"]),
        (doubled_if_even, (5, 1, 7), ["n % 2 != 0"]),
        (padded_if_needed, (8, 4, 12), None),
        (padded_if_needed, (6, 1, 7), None),
        (by_several_lengths, (5, 4, 6, 1), ["n != 3", "n != 7"]),
        (windows, (3, 1, 12, 16), ["n//4 != 2"]),
    ],
    ids=lambda value: getattr(value, "__name__", "_"),
)
def test_a_guard_that_leaves_other_sizes(
    function: Function, lengths: tuple[int, ...], expected: list[str] | None
) -> None:
    examples = [of_length(n, batch) for n, batch in zip(lengths, (2, 1, 3, 2), strict=False)]
    with pytest.warns(UserWarning, match="valid only where"):
        program = assert_recorded(Calling(function), (DYNAMIC,), *examples)
    assert expected is None or conditions(program) == expected


def chunks(x: torch.Tensor) -> Any:
    first, second = x.chunk(2, dim=1)
    return first.sum(1) + second.sum(1), first


def pieces_of_a_limited_size(x: torch.Tensor) -> Any:
    return torch.cat([piece * i for i, piece in enumerate(x.split(16, dim=1), 1)], 1)


def pieces_of_a_computed_size(x: torch.Tensor) -> Any:
    first, second = x.split(x.shape[1] // 2 + 1, dim=1)
    return first.mean(1) - second.mean(1)


@pytest.mark.parametrize(
    ("function", "lengths"),
    [
        (chunks, (5, 2, 3, 8)),
        (pieces_of_a_limited_size, (5, 1, 16)),
        (pieces_of_a_limited_size, (20, 17, 32)),
        (pieces_of_a_computed_size, (5, 3, 4, 8)),
    ],
    ids=lambda value: getattr(value, "__name__", "_"),
)
def test_the_number_of_pieces_is_a_guard(function: Function, lengths: tuple[int, ...]) -> None:
    examples = [of_length(n) for n in lengths]
    with pytest.warns(UserWarning, match="valid only where"):
        assert_recorded(Calling(function), (DYNAMIC,), *examples)


def equal_parts(x: torch.Tensor) -> Any:
    return *torch.tensor_split(x, 3, dim=1), *torch.tensor_split(x, (1, x.shape[1] // 2 + 1), dim=1)


def at_least_2d(x: torch.Tensor) -> Any:
    return torch.atleast_2d(x[:, 0, 0], x[0])


@pytest.mark.parametrize("function", [equal_parts, at_least_2d], ids=function_id)
def test_the_number_of_results_does_not_depend_on_sizes(function: Function) -> None:
    program = assert_recorded(
        Calling(function), (DYNAMIC,), of_length(5), of_length(8, 1), of_length(1, 3)
    )
    assert not conditions(program)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x * 2 if x.shape[1] == 5 else x,
        lambda x: x * 2 if 2 * x.shape[1] == 10 else x,
    ],
)
def test_an_equation_that_pins_a_size(function: Function) -> None:
    assert reason_of(Calling(function), (X,), (DYNAMIC,))


def last_rows_of_a_table(x: torch.Tensor) -> Any:
    table = torch.arange(64.0).reshape(8, 8)
    n = x.shape[1]
    return x + table[:, -n:] if n <= table.shape[1] else x


@pytest.mark.parametrize("n", [5, 8])
def test_a_guard_decides_between_a_size_and_its_limit(n: int) -> None:
    module = Calling(last_rows_of_a_table)
    program = exported(module, (torch.randn(8, n),), (({1: "n"},),))
    assert conditions(program) == ["n <= 8"]
    assert_equal_to_eager(program, module, *((torch.randn(8, size),) for size in (1, 3, 8)))


def padded_to_whole_windows(x: torch.Tensor) -> Any:
    n = x.shape[1]
    windows = (n - 10 + 5) / 5 + 1
    extra = (math.ceil(windows) - 1) * 5 + 5 - n
    assert extra >= 0
    padded = torch.nn.functional.pad(x, (5, extra), "reflect")
    return padded.unfold(1, 10, 5).sum(-1), windows, windows * 3


def test_the_number_of_windows_is_a_size() -> None:
    module = Calling(padded_to_whole_windows)
    program = exported(module, (torch.randn(2, 43),), (({1: "n"},),))
    assert_native(program)
    assert conditions(program) == []
    assert_equal_to_eager(program, module, *((torch.randn(2, n),) for n in (40, 41, 44, 49, 63)))


EMPTY: list[tuple[Function, str]] = [
    (lambda x: x.mean() if x.numel() > 0 else x.sum() - 1, "4*batch*n > 0"),
    (lambda x: x.sum() - 1 if x.shape[1] == 0 else x.sum(), "n != 0"),
    (lambda x: x.sum() if x.shape[0] else x.sum() - 1, "batch != 0"),
    (lambda x: x.sum() - 1 if len(x) < 1 else x.sum(), "batch >= 1"),
]


@pytest.mark.parametrize(("function", "condition"), EMPTY, ids=[text for _, text in EMPTY])
def test_a_branch_for_empty_inputs_is_a_guard(function: Function, condition: str) -> None:
    with pytest.warns(UserWarning, match="valid only where"):
        program = assert_recorded(Calling(function), (DYNAMIC,), of_length(5), of_length(1))
    assert conditions(program) == [condition]


def no_branch_for_empty_inputs(x: torch.Tensor) -> Any:
    if x.shape[0] >= 0 and x.shape[1] != -1:
        x = torch.nn.functional.interpolate(x[None], scale_factor=2.0)[0]
    return torch.nn.functional.softmax(x, 1).flatten(1) * (x.shape[1] > 0)


def test_code_of_torch_may_ask_whether_an_input_is_empty() -> None:
    program = assert_recorded(
        Calling(no_branch_for_empty_inputs), (DYNAMIC,), of_length(5), of_length(1)
    )
    assert conditions(program) == []
    declared = ({0: torch.export.Dim("batch", min=1), 1: torch.export.Dim("n", min=1)},)
    program = assert_recorded(Calling(EMPTY[0][0]), (declared,), of_length(5), of_length(1))
    assert conditions(program) == []
