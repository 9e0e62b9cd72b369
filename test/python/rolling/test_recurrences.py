"""Recurrent cells in rolled loops become ONNX's recurrent operators."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import onnx_native
import pytest
import torch
from rolling.recurrences import KEPT, RECOGNIZED, Recurrence

OPERATORS = ("LSTM", "GRU", "RNN", "Scan", "Loop")


def arguments(length: int, dtype: torch.dtype = torch.float32) -> tuple[torch.Tensor, ...]:
    generator = torch.Generator().manual_seed(length)
    shapes = ((2, length, 6), (2, 8), (2, 8))
    return tuple(torch.randn(shape, generator=generator, dtype=dtype) for shape in shapes)


def program_of(model: torch.nn.Module, args: tuple[torch.Tensor, ...]) -> Any:
    shapes = ({0: "b", 1: "n"}, {0: "b"}, {0: "b"})
    return torch.onnx.export(model, args, dynamo=True, dynamic_shapes=shapes, verbose=False)


def check(model: torch.nn.Module, program: Any, *, dtype: torch.dtype = torch.float32) -> None:
    for length in (1, 2, 5, 19):
        args = arguments(length, dtype)
        expected = model(*args)
        for got, each in zip(
            program(*args), expected if isinstance(expected, tuple) else (expected,), strict=True
        ):
            torch.testing.assert_close(got, each.detach(), atol=1e-5, rtol=1e-5)


def operators(program: Any) -> list[str]:
    return [n.op_type for n in program.model_proto.graph.node if n.op_type in OPERATORS]


@pytest.mark.parametrize("function", RECOGNIZED, ids=lambda f: f.__name__)
def test_recognized(function: Callable[..., Any]) -> None:
    model = Recurrence(function).eval()
    program = program_of(model, arguments(4))
    assert operators(program) == RECOGNIZED[function]
    check(model, program)


@pytest.mark.parametrize("function", KEPT, ids=lambda f: f.__name__)
def test_kept(function: Callable[..., Any]) -> None:
    model = Recurrence(function).eval()
    program = program_of(model, arguments(4))
    assert operators(program) == ["Scan"]
    check(model, program)


def test_float64_is_kept() -> None:
    """ONNX Runtime has the operators for float32."""
    (function, *_) = RECOGNIZED
    model = Recurrence(function).eval().double()
    program = program_of(model, arguments(4, torch.float64))
    assert operators(program) == ["Scan"]
    check(model, program, dtype=torch.float64)


def test_weights_are_stored_once() -> None:
    (function, *_) = RECOGNIZED
    model = Recurrence(function).eval()
    initializers = program_of(model, arguments(4)).model_proto.graph.initializer
    names = {each.name for each in initializers}
    assert "lstm.weight_hh[0:8,24:32,8:24]" in names
    assert "lstm.weight_hh" not in names


def test_no_step() -> None:
    """The states stay as they are: ONNX Runtime's LSTM returns zeros."""

    def last(m: Any, x: torch.Tensor, h: torch.Tensor, c: torch.Tensor) -> Any:
        for t in range(x.size(1)):
            h, c = m.lstm(x[:, t], (h, c))
        return h, c

    model = Recurrence(last).eval()
    program = program_of(model, arguments(4))
    assert operators(program) == ["LSTM"]
    check(model, program)
    x, h, c = arguments(0)
    for got, expected in zip(program(x, h, c), (h, c), strict=True):
        torch.testing.assert_close(got, expected)


def test_the_pass_can_be_switched_off() -> None:
    (function, *_) = RECOGNIZED
    with onnx_native.options(disabled_passes=("recurrences",)):
        program = program_of(Recurrence(function).eval(), arguments(4))
    assert operators(program) == ["Scan"]
