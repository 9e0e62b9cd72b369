"""Dynamic sizes that a capture narrows or fixes: a warning with the size and the source line."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from typing import Any

import onnx_native
import pytest
import torch

DYNAMIC = torch.export.Dim.DYNAMIC
AUTO = torch.export.Dim.AUTO
Warned = torch.onnx.errors.OnnxExporterWarning


class Function(torch.nn.Module):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: torch.Tensor) -> Any:
        return self.function(*args)


def branch(x: torch.Tensor) -> torch.Tensor:
    return x + 1 if x.shape[0] <= 2068 else x


def even(x: torch.Tensor) -> torch.Tensor:
    return x.relu() if x.shape[0] % 2 == 0 else x


def two(x: torch.Tensor) -> torch.Tensor:
    return x + 1 if x.shape[0] < 3 * x.shape[1] else x


NARROWED = [
    (branch, r"NAME <= 2068"),
    (even, r"NAME ?% ?2 == 0"),
]


@pytest.mark.captures("auto", "torch.export")
@pytest.mark.parametrize("dim", ["n", DYNAMIC])
@pytest.mark.parametrize(("function", "condition"), NARROWED)
@onnx_native.options(branches="example")
def test_guards_are_warnings(function: Callable[..., Any], condition: str, dim: Any) -> None:
    with pytest.warns(Warned) as found:
        program = torch.onnx.export(
            Function(function).eval(),
            (torch.randn(6, 4),),
            dynamo=True,
            verbose=False,
            dynamic_shapes=(({0: dim},),),
        )
    text = "\n".join(str(each.message) for each in found)
    name = program.model_proto.graph.input[0].type.tensor_type.shape.dim[0].dim_param
    assert dim == DYNAMIC or name == "n"
    assert re.search(condition.replace("NAME", name), text), text
    line = function.__code__.co_firstlineno + 1
    assert f"(test_narrowed_sizes.py:{line})" in text
    assert f"{name} is dimension 0 of args_0" in text
    (guard,) = program.export_report["capture"]["guards"]
    assert guard["source"] == f"test_narrowed_sizes.py:{line}"


@pytest.mark.captures("auto", "torch.export")
def test_no_guard_no_warning() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", Warned)
        program = torch.onnx.export(
            Function(lambda x: x.flatten(1).softmax(-1)).eval(),
            (torch.randn(6, 4, 2),),
            dynamo=True,
            verbose=False,
            dynamic_shapes=(({0: DYNAMIC, 1: "m"},),),
        )
    assert program.export_report["capture"]["guards"] == []


@onnx_native.options(branches="example")
def test_guards_on_two_sizes() -> None:
    with pytest.warns(Warned, match="n < 3\\*m|3\\*m > n"):
        torch.onnx.export(
            Function(two).eval(),
            (torch.randn(6, 4),),
            dynamo=True,
            verbose=False,
            dynamic_shapes=(({0: "n", 1: "m"},),),
        )


class FixedByView(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.view(2, -1, 2).sum(1)


@pytest.mark.captures("auto", "torch.export")
def test_a_number_in_the_place_of_the_batch() -> None:
    with pytest.warns(Warned, match="the program fixes the dynamic size batch") as found:
        torch.onnx.export(
            FixedByView().eval(),
            (torch.randn(2, 4, 2),),
            dynamo=True,
            verbose=False,
            dynamic_shapes=({0: "batch"},),
        )
    text = "\n".join(str(each.message) for each in found)
    line = FixedByView.forward.__code__.co_firstlineno + 1
    assert "valid only where batch == 2" in text
    assert f"test_narrowed_sizes.py:{line}" in text


@pytest.mark.captures("auto", "torch.export")
@pytest.mark.parametrize(
    "function",
    [
        lambda x: x.mean(0, keepdim=True),
        lambda x: x.view(x.shape[0], -1).sum(1),
        lambda x: x.reshape(-1, 2).relu(),
        lambda x: x[:, :1].expand(-1, 4, -1),
        lambda x: x.view(2, -1) + x.shape[0],
    ],
)
def test_sizes_that_the_results_have(function: Callable[..., Any]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", Warned)
        example = torch.randn(3, 4, 2)
        torch.onnx.export(
            Function(function).eval(),
            (example,),
            dynamo=True,
            verbose=False,
            dynamic_shapes=(({0: "batch"},),),
        )


def test_a_trace_that_fixes_the_batch() -> None:
    class Fixed(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.reshape(int(x.shape[0]), 8)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", torch.jit.TracerWarning)
        traced = torch.jit.trace(Fixed(), torch.randn(1, 4, 2))
    with pytest.warns(Warned, match="fixes the dynamic size .*valid only where 8\\*batch == 8"):
        torch.onnx.export(
            traced,
            (torch.randn(1, 4, 2),),
            dynamo=True,
            verbose=False,
            dynamic_shapes=({0: "batch"},),
        )


@onnx_native.options(capture="torch.export")
def test_the_number_of_steps_that_torch_export_takes_is_a_guard() -> None:
    def steps(x: torch.Tensor) -> torch.Tensor:
        total = x[0]
        for i in range(min(x.shape[0], 9)):
            total = total * 0.5 + x[i]
        return total

    program = torch.onnx.export(
        Function(steps), (torch.randn(6, 4),), dynamo=True, dynamic_shapes=(({0: "n"},),)
    )
    assert program is not None
    (guard,) = program.export_report["capture"]["guards"]
    assert guard["condition"] == "min(9, n) == 6"
    assert guard["source"].startswith("test_narrowed_sizes.py:")
