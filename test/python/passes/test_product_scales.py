"""Numbers beside a product keep their precision in ONNX Runtime with its default optimizations."""

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

DYNAMIC = {0: torch.export.Dim.DYNAMIC, 1: torch.export.Dim.DYNAMIC}


class Function(nn.Module):
    def __init__(self, function: Callable[..., Any]):
        super().__init__()
        self.function = function
        self.temperature = nn.Parameter(torch.tensor(0.3))

    def forward(self, *inputs: Tensor) -> Any:
        return self.function(self, *inputs)


def check(
    function: Callable[..., Any], *inputs: Tensor, tolerance: float = 0, **options: Any
) -> onnx.ModelProto:
    module = Function(function).to(inputs[0].dtype).eval()
    program = torch.onnx.export(module, inputs, dynamo=True, verbose=False, **options)
    proto = program.model_proto
    onnx.checker.check_model(proto, full_check=True)
    session = onnxruntime.InferenceSession(proto.SerializeToString())
    names = [value.name for value in session.get_inputs()]
    results = session.run(None, dict(zip(names, (x.numpy() for x in inputs), strict=True)))
    with torch.no_grad():
        expected = module(*inputs)
    expected = expected if isinstance(expected, tuple) else (expected,)
    tolerance = tolerance or (1e-13 if inputs[0].dtype is torch.float64 else 1e-5)
    for result, wanted in zip(results, expected, strict=True):
        np.testing.assert_allclose(result, wanted.numpy(), rtol=tolerance, atol=tolerance)
    return proto


def operators(proto: onnx.ModelProto) -> list[str]:
    return [node.op_type for node in proto.graph.node]


DOUBLES: dict[str, Callable[..., Any]] = {
    "operand": lambda m, x, y: (x * 0.3) @ y,
    "divided": lambda m, x, y: (x / 0.3) @ y,
    "second": lambda m, x, y: x @ (y * 0.3),
    "result": lambda m, x, y: (x @ y) / 0.3,
    "result_and_operand": lambda m, x, y: (x @ y * 0.7) @ y,
    "transposed": lambda m, x, y: (x * 0.3).mT @ y.relu(),
    "transposed_result": lambda m, x, y: (x @ y).mT * 0.3,
    "numbers_in_a_row": lambda m, x, y: (x * 0.3 * 2).exp().log() * 0.5 * 0.1 @ y,
    "learned": lambda m, x, y: (x * m.temperature) @ y,
    "learned_result": lambda m, x, y: (x @ y * m.temperature) @ y,
    "attention": lambda m, x, y: functional.scaled_dot_product_attention(x, y, y),
    "one_element": lambda m, x, y: (x[:1, :1] * 0.3) @ y[:1, :1],
}


@pytest.mark.parametrize("optimize", [True, False])
@pytest.mark.parametrize("name", DOUBLES)
def test_numbers_of_doubles(name: str, optimize: bool) -> None:
    inputs = torch.rand(3, 3).double(), torch.rand(3, 3).double()
    check(DOUBLES[name], *inputs, optimize=optimize)


@pytest.mark.parametrize("name", ["operand", "result", "result_and_operand", "divided"])
def test_doubles_of_dynamic_sizes(name: str) -> None:
    inputs = torch.rand(4, 4).double(), torch.rand(4, 4).double()
    check(DOUBLES[name], *inputs, dynamic_shapes=((DYNAMIC, DYNAMIC),))


SCALED_TWICE: dict[str, Callable[..., Any]] = {
    "used_first": lambda m, x, y: ((x * -0.3) @ y, (x * -0.3 * 2).relu(), (x * -0.3 * 0.7) @ x),
    "branches": lambda m, x, y: (lambda t: (t @ y, (t * 0.7) @ (t / 0.9)))(x * 0.3),
    "attention": lambda m, x, y: (lambda t: functional.scaled_dot_product_attention(t, t, t) @ t)(
        x / 0.5
    ),
    "learned": lambda m, x, y: (lambda t: (t @ y, (t * m.temperature) @ y))(x * m.temperature),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.float64])
@pytest.mark.parametrize("name", SCALED_TWICE)
def test_values_that_are_scaled_again_and_used_elsewhere(name: str, dtype: torch.dtype) -> None:
    inputs = torch.rand(3, 3).to(dtype), torch.rand(3, 3).to(dtype)
    check(SCALED_TWICE[name], *inputs, tolerance=5e-3 if dtype is torch.float16 else 0)


def test_other_numbers_stay_numbers() -> None:
    x, y = torch.rand(2, 3, 4), torch.rand(2, 3, 4)
    cases: list[tuple[Callable[..., Any], torch.dtype]] = [
        (DOUBLES["attention"], torch.float32),
        (lambda m, x, y: (x * 0.25) @ y.mT, torch.float64),
        (lambda m, x, y: (x * 0.3) + y, torch.float64),
    ]
    for function, dtype in cases:
        proto = check(function, x.to(dtype), y.to(dtype))
        assert "Neg" not in operators(proto)
        shapes = [list(each.dims) for each in proto.graph.initializer if each.data_type != 7]
        assert shapes == [[]]
