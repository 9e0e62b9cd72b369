"""Data-dependent integers, which may be negative: they are not sizes."""

from __future__ import annotations

import functools
import linecache
from collections.abc import Callable
from typing import Any

import onnx
import onnx_native
import onnxruntime
import pytest
import torch
from jit.running import check as check_script
from models.running import assert_same

C = onnx_native._C

VALUES = (-7, -3, -1, 0, 1, 2, 5)
ROWS = 6

# Numbers computed from an integer `n`, as expressions in both Python and TorchScript.
NUMBERS = {
    "half": "n // 2",
    "third_of_negated": "-n // 3",
    "negative_divisor": "n // -2",
    "both_negative": "-n // -2",
    "rounded_twice": "(n // 3) * 2",
    "nested": "n // 2 // 3",
    "nested_negative": "n // 2 // -3",
    "divides": "7 // (n - 9)",
    "by_a_sum": "(n - 10) // (n + 20)",
    "remainder": "n % 3",
    "negative_modulus": "n % -3",
    "remainder_of_sum": "(2 * n - 1) % 4",
    "modulus_from_data": "7 % (n - 9)",
    "quotient_and_remainder": "(n // 4) * 4 + n % 4 - 2 * n",
    "negated": "-n",
    "square": "n * n",
    "cube": "n * n * n",
    "absolute": "abs(n)",
    "distance": "abs(n - 2) - abs(n)",
    "at_least_zero": "max(n, 0)",
    "at_most_zero": "min(n, 0)",
    "clamped": "min(max(n, -2), 2)",
    "larger": "max(n, -n // 2)",
    "of_a_maximum": "max(n // 2, -2) // 2",
    "with_a_size": "max(n, x.size(0)) - min(n, x.size(0))",
    "size_over": "x.size(0) // (n - 9)",
    "over_size": "n // x.size(0)",
    "modulo_size": "n % x.size(0)",
    "times_size": "n * x.size(0) // 4",
}

# Tensor operations that take the integer.
TENSORS = {
    "added": "x + n",
    "subtracted_from": "n - x",
    "scaled": "x * n // 2",
    "alpha": "torch.add(x, x, alpha=n)",
    "from_start": "x[n:]",
    "to_end": "x[:n]",
    "columns": "x[:, n:]",
    "columns_to_end": "x[:, : n + 1]",
    "between": "x[n : n + 2]",
    "shifted": "x[n - 2 :] * 2",
    "length": "x[n:] * x[n:].size(0)",
    "roll": "torch.roll(x, n, 0)",
    "roll_all": "torch.roll(x, n)",
    "roll_two": "torch.roll(x, (n, -n), (0, 1))",
    "full": "torch.full((2, 3), n)",
    "counted": "torch.arange(max(n, 0)) + n",
    "counted_from": "torch.arange(n, 9)",
    "counted_down": "torch.arange(5, n - 1, -1)",
    "zeros": "torch.zeros(abs(n), 2) + n",
    "ones_of_half": "torch.ones(max(n // 2, 0) + 1) * n",
    "where": "torch.where(x > n, x, x * n)",
    "clamp": "torch.clamp(x, min=n)",
    "remainder_by": "torch.remainder(x, n * 2 + 1)",
    "floor_divide_by": "torch.div(x, n * 2 + 1, rounding_mode='floor')",
    "repeated": "x.repeat(max(n, 1), 1)",
}

# Conditions for branches in TorchScript; torch.export cannot capture them.
DECISIONS = {
    "branch": "x + n if n >= 0 else x - n",
    "branch_of_quotient": "x * 2 if n // 2 < 0 else x * 3",
    "branch_of_product": "x * 2 if n * n > 4 else x * 3",
    "branch_of_absolute": "x * 2 if abs(n) == 3 else x * 3",
    "branch_of_remainder": "x * 2 if n % 2 == 1 else x * 3",
    "chosen": "x * (n if n < 0 else 2 * n)",
    "truth": "x * 2 if n else x * 3",
    "picked": "x[:, n]",
    "row": "x[n % 6]",
    "narrowed": "x.narrow(1, n, 1)",
    "rounded": "x * int(n / 2)",
    "floored": "x * int(n * 0.5)",
    "sum_of_range": "x * float(sum([i for i in range(n)]))",
}

Program = Callable[..., Any]


@functools.cache
def script(expression: str, parameter: str, prefix: str) -> Any:
    source = f"def program(x: Tensor, {parameter}):\n{prefix}    return {expression}\n"
    return torch.jit.CompilationUnit(source).program


def from_tensor(expression: str) -> Any:
    return script(expression, "t: Tensor", "    n = int(t)\n")


class Model(torch.nn.Module):
    """A program that evaluates an expression of an integer `n` that it reads from `t`."""

    def __init__(self, expression: str) -> None:
        super().__init__()
        name = f"<{expression}>"
        source = f"def program(x, t):\n    n = t.item()\n    return {expression}\n"
        linecache.cache[name] = (len(source), None, source.splitlines(True), name)
        scope: dict[str, Any] = {"torch": torch}
        exec(compile(source, name, "exec"), scope)
        self.program = scope["program"]

    def forward(self, x: torch.Tensor, t: torch.Tensor) -> Any:
        return self.program(x, t)


def x_of(rows: int) -> torch.Tensor:
    return torch.arange(rows * 9, dtype=torch.float32).reshape(rows, 9) - 20


def inputs(expression: str) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Runs all values that eager accepts; the first one is the example of the export."""
    all_inputs = [(x_of(ROWS - n % 3), torch.tensor(n)) for n in (5, *VALUES)]
    return [pair for pair in all_inputs if computes(Model(expression), pair)]


def computes(model: torch.nn.Module, args: Any) -> bool:
    try:
        model(*args)
    except (RuntimeError, IndexError):
        return False
    return True


def session(model: onnx.ModelProto) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(model.SerializeToString(), options)


def check_captured(expression: str, opset: int) -> onnx.ModelProto:
    model = Model(expression)
    pairs = inputs(expression)
    program = torch.onnx.export(
        model,
        pairs[0],
        dynamo=True,
        dynamic_shapes=({0: "rows"}, None),
        opset_version=opset,
        verbose=False,
    )
    assert program is not None
    onnx.checker.check_model(program.model_proto, full_check=True)
    running = session(program.model_proto)
    for x, t in pairs:
        feed = dict(
            zip([i.name for i in running.get_inputs()], (x.numpy(), t.numpy()), strict=True)
        )
        got = [torch.from_numpy(y) for y in running.run(None, feed)]
        assert_same(got, [torch.as_tensor(model(x, t))])
    return program.model_proto


NUMBER_OF_TENSOR = {name: f"x * ({text})" for name, text in NUMBERS.items()}
SHARED = NUMBER_OF_TENSOR | TENSORS


@pytest.mark.parametrize("name", SHARED)
def test_captured(name: str) -> None:
    check_captured(SHARED[name], 18)


@pytest.mark.parametrize("name", NUMBERS)
def test_numbers_as_results(name: str) -> None:
    check_captured(NUMBERS[name].replace("x.size(0)", "6"), 20)


@pytest.mark.parametrize("name", SHARED)
def test_archives_are_read_alike(name: str, tmp_path: Any) -> None:
    pair = inputs(SHARED[name])[0]
    rows = torch.export.Dim("rows", min=1, max=100)
    model = Model(SHARED[name])
    program = torch.export.export(model, pair, dynamic_shapes=({0: rows}, None))
    try:
        torch.export.save(program, tmp_path / "program.pt2")
    except Exception as error:
        if "is not in _SYM_OPS" not in str(error.__cause__):
            raise
        return
    assert C.read_pt2(str(tmp_path / "program.pt2")) == C.read(program)
    assert "u0: [-inf, " in C.read(program)
    assert "rows: input" not in C.read(program, {"s77": "rows"})  # no range: any size


@pytest.mark.parametrize("name", SHARED | DECISIONS)
def test_scripted(name: str) -> None:
    expression = (SHARED | DECISIONS)[name]
    pairs = inputs(expression)
    check_script(from_tensor(expression), pairs, ({0: "rows"}, None), opsets=(18,))


@pytest.mark.parametrize("name", SHARED | DECISIONS)
def test_open_integer_input(name: str) -> None:
    expression = (SHARED | DECISIONS)[name]
    pairs = [(x, int(t)) for x, t in inputs(expression)]
    shapes = ({0: "rows"}, torch.export.Dim.DYNAMIC)
    check_script(script(expression, "n: int", ""), pairs, shapes, opsets=(20,))


@pytest.mark.parametrize("name", SHARED | DECISIONS)
def test_traced_call_of_a_script(name: str) -> None:
    program = from_tensor((SHARED | DECISIONS)[name])
    pairs = inputs((SHARED | DECISIONS)[name])
    traced = torch.jit.trace(lambda x, t: program(x, t) + 1, pairs[0], check_trace=False)
    check_script(traced, pairs, ({0: "rows"}, None), opsets=(21,))
