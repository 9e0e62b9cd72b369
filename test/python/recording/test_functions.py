"""Native capture of Python's functions of sizes: they stay symbolic."""

from __future__ import annotations

import math
import threading
from typing import Any

import numpy as np
import pytest
import torch
from models.calling import Calling
from models.recording import (
    DYNAMIC,
    EXAMPLES,
    Function,
    X,
    assert_recorded,
    exported,
    function_id,
    reason_of,
)
from numpy import sqrt as square_root
from torch.nn import functional as F


def lengths(x: torch.Tensor) -> Any:
    assert len(x) > 0
    return x * len(x), len(x[0]), len([1, 2]), len("ab")


def square_roots(x: torch.Tensor) -> Any:
    return x / math.sqrt(x.shape[1]), x * math.sqrt(x.shape[0] * 0.5), x * math.sqrt(2)


def math_functions(x: torch.Tensor) -> Any:
    n = x.shape[1]
    numbers = [math.exp(-n / 10), math.log(n), math.log(n, 3), math.log10(n), math.tanh(n / 5)]
    return [x * number for number in (*numbers, math.sin(n), math.cos(n))], x * math.log(2)


def logarithms_of_powers(x: torch.Tensor) -> Any:
    """Rounded, they are exact: log(1000) / log(10) is less than 3."""
    n = x.shape[1] - x.shape[1]
    powers = [math.floor(math.log10(10**k + n)) for k in range(1, 16)]
    powers += [math.ceil(math.log2(2**k + n)) for k in range(1, 40)]
    return [x * power for power in powers]


def roundings(x: torch.Tensor) -> Any:
    n = x.shape[1]
    return x[:, : round(n * 0.5)], x[:, : round(n / 4) + 1], torch.zeros(math.trunc(n * 0.7))


def roundings_of_elements(x: torch.Tensor) -> Any:
    number = x.mean().item() * 7
    return x * math.trunc(number), x * round(number), x * math.floor(number)


KINDS = {int: "int", float: "float"}


def numbers(x: torch.Tensor) -> Any:
    n = x.shape[1]
    two = 2
    assert isinstance(n, int)
    assert isinstance(n / 2, (float, bool))
    assert type(n) is int
    assert type(n / 2) is float
    assert (KINDS[type(n)], KINDS[type(two)], KINDS[type(n / 2)]) == ("int", "int", "float")
    assert (type(two) is int, isinstance(two, int), int("7"), int("f", 16)) == (True, True, 7, 15)
    assert (int.from_bytes(b"a", "big"), int.__name__, list(map(int, "12"))) == (97, "int", [1, 2])
    assert np.array([1.7]).astype(int)[0] == 1
    index = int(x.abs().amax()) % 2
    return (
        x[:, : int(n * 0.5)],
        x[:, : int(math.sqrt(n))] * int(n),
        x * float(n),
        x / float(x.abs().sum()),
        x[:, index],
        F.interpolate(x[:, None], size=(int(n * 1.5), int(x.shape[2] / 2))),
        x.to(torch.float64) * int(x[0, 0, 0] * -100),
    )


def quotients(x: torch.Tensor) -> Any:
    whole, rest = divmod(x.shape[1], 2)
    return x * whole + rest, divmod(7, 2)


def extrema(x: torch.Tensor) -> Any:
    batch, n, channels = x.shape
    largest, smallest = max(x.shape), min([n, batch, 6])
    assert (max("ab"), max([3, 1], key=abs), min([], default=4), max(2, 1.5)) == ("b", 3, 4, 2)
    return (
        x * max(n, 6) + min(n, 6) * max(batch, n, channels),
        x[:, : min(n, 6)] * largest + smallest,
        x * max(n * 0.5, 3.1),
        F.pad(x, (0, 0, 0, max(0, 10 - n))),
        torch.zeros(max(size for size in (n, 6))),
    )


def extrema_of_elements(x: torch.Tensor) -> Any:
    number = x.sum().item()
    return x / max(number, 1e-3), x * min(number, 0.1, -number), x * max(float("-inf"), number)


def differences(x: torch.Tensor) -> Any:
    batch, n = x.shape[:2]
    return x * abs(n - 6), x * abs(n / 2 - 3), x * sum(x.shape), x[:, : abs(batch - 2) + 1]


def numbers_of_bits(x: torch.Tensor) -> Any:
    n = x.shape[1] - x.shape[1]
    bits = [(number + n).bit_length() for k in range(30) for number in (2**k - 1, 2**k, -(2**k))]
    return [x * number for number in (*bits, x.shape[1].bit_length())]


def functions_of_numpy(x: torch.Tensor) -> Any:
    n = x.shape[1]
    ones = torch.ones(2, dtype=torch.int64)
    floats = [np.sqrt(n), np.exp(-n / 10), np.log(n), np.log2(n), np.log10(n), np.tanh(n / 5)]
    floats += [np.sin(n), np.cos(n), np.abs(n / 2 - 3), np.ceil(n / 2), np.rint(n / 2)]
    floats += [np.floor(n), np.ceil(n), np.rint(n), np.trunc(n / 2)]
    floats += [square_root(n), np.float64(0.5) * n, n / np.float32(4)]
    assert np.sqrt([4.0]).tolist() == [2.0]
    assert isinstance(np.absolute, np.ufunc)  # libraries written in C rely on it
    assert np.maximum.reduce([1, 3]) == 3
    return (
        [x * number for number in floats],
        [ones * number for number in floats],
        ones * np.maximum(n, 6) + np.minimum(n, 6) + np.absolute(n - 6),
        ones * np.maximum(n, np.int64(6)),
        x[:, : int(np.ceil(n / 2))] * np.maximum(n, 5.5),
        x.reshape(np.prod(x.shape)),
    )


def tensors_of_sizes(x: torch.Tensor) -> Any:
    batch, n, channels = x.shape
    return (
        torch.tensor(n),
        torch.tensor([batch, n, channels]),
        torch.tensor([[batch, 2], [n, 3]], dtype=torch.int32),
        torch.as_tensor([n / 2, 1]),
        torch.tensor(x.shape)[1:],
        x / torch.tensor(n),
        x.new_tensor([1, 2, 3, n]),
        x.new_tensor([[1.0], [2.0]]),
    )


def resized(x: torch.Tensor) -> Any:
    image = x[:, None]
    return F.interpolate(image, scale_factor=0.7, recompute_scale_factor=True, mode="bilinear")


RIGHT = [
    lengths,
    square_roots,
    math_functions,
    logarithms_of_powers,
    numbers,
    roundings,
    roundings_of_elements,
    quotients,
    extrema,
    extrema_of_elements,
    differences,
    numbers_of_bits,
    functions_of_numpy,
    tensors_of_sizes,
    resized,
]


@pytest.mark.parametrize("function", RIGHT, ids=function_id)
def test_functions_of_sizes(function: Function) -> None:
    assert_recorded(Calling(function), (DYNAMIC,), *EXAMPLES)
    assert_recorded(Calling(function), None, EXAMPLES[0])


def blocks(x: torch.Tensor) -> Any:
    return torch.cat([x[:, i : i + 8] * (i + 1) for i in range(0, x.shape[1], 8)], 1)


def blocks_from_the_end(x: torch.Tensor) -> Any:
    return [x[:, -i:] for i in range(2, (x.shape[1] if x.shape[1] < 3 else 3) + 1)]


@pytest.mark.parametrize(
    ("function", "sizes"),
    [(blocks, (5, 1, 8)), (blocks, (13, 9, 16)), (blocks_from_the_end, (5, 3, 9))],
)
def test_a_loop_over_pieces(function: Function, sizes: tuple[int, ...]) -> None:
    examples = [(torch.randn(2, n, 4),) for n in sizes]
    with pytest.warns(UserWarning, match="valid only where"):
        assert_recorded(Calling(function), (DYNAMIC,), *examples)


def decimals(x: torch.Tensor) -> Any:
    return x * round(x.shape[1] / 3, 2)


def test_steps_aside() -> None:
    assert reason_of(Calling(decimals), (X,), (DYNAMIC,))


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("function", [extrema, differences, numbers_of_bits, functions_of_numpy])
def test_extrema_have_no_guards(function: Function) -> None:
    program = exported(Calling(function).eval(), EXAMPLES[0], (DYNAMIC,))
    assert program.export_report["capture"]["guards"] == []


def of_two_classes(x: torch.Tensor) -> Any:
    """Eager's result is an int or a float, as the size decides."""
    return torch.ones(2, dtype=torch.int64) * max(x.shape[1] * 0.5, 2)


def test_an_extremum_of_numbers_of_two_classes() -> None:
    with pytest.warns(UserWarning, match="valid only where"):
        assert_recorded(Calling(of_two_classes), (DYNAMIC,), EXAMPLES[0], EXAMPLES[1])


def extrema_with_nan(x: torch.Tensor) -> Any:
    return [y.nan_to_num(7.0, 8.0, 9.0) for y in extrema_of_elements(x)]


def test_elements_that_are_not_numbers() -> None:
    x = X.clone()
    x[0, 0, 0] = float("nan")
    assert_recorded(Calling(extrema_with_nan).eval(), (DYNAMIC,), (X,), (x,))


def dtypes_of_python(x: torch.Tensor) -> Any:
    return torch.zeros(2, dtype=int) + x.shape[1], x.to(float)


def test_dtypes_of_python_step_aside() -> None:
    assert reason_of(Calling(dtypes_of_python), (X,), (DYNAMIC,))


def test_ranges_remain_ranges() -> None:
    found: list[Any] = []

    def elsewhere() -> None:
        found.append(list(range(3)))

    def asking(x: torch.Tensor) -> Any:
        found.append((isinstance(range(2), range), type(range(1, 3)), list(reversed(range(3)))))
        thread = threading.Thread(target=elsewhere)
        thread.start()
        thread.join()
        return x * range(5)[3]

    before = math.sqrt, torch.tensor
    assert_recorded(Calling(asking), (DYNAMIC,), *EXAMPLES)
    assert found[:2] == [(True, type(range(1)), [2, 1, 0]), [0, 1, 2]]
    assert before == (math.sqrt, torch.tensor)
    assert not {"len", "range", "divmod", "int", "float"} & globals().keys()


def test_a_function_in_place_of_attention(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = torch.nn.functional.scaled_dot_product_attention

    def traceable(query: Any, key: Any, value: Any, **kwargs: Any) -> Any:
        return plain(query, key, value, **kwargs)

    monkeypatch.setattr(torch.nn.functional, "scaled_dot_product_attention", traceable)
    model = Calling(lambda x: torch.nn.functional.scaled_dot_product_attention(x, x, x))
    x = torch.randn(2, 5, 4)
    assert_recorded(model, None, (x,))
