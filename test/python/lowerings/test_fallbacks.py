"""Fallbacks: operators without an entry in the op table, exported with PyTorch's help."""

import onnx
import onnx_native
import onnxruntime
import pytest
import torch
from onnx_native.lowerings import _onnxscript
from onnxscript import FLOAT, opset18, script
from torch._decomp import register_decomposition

pytestmark = pytest.mark.captures("auto", "torch.export")

library = torch.library.Library("onnx_native_fallbacks", "DEF")
ops = torch.ops.onnx_native_fallbacks


def define(schema, function):
    library.define(schema)
    name = schema.partition("(")[0]
    library.impl(name, function, "CompositeExplicitAutograd")
    torch.library.register_fake(f"onnx_native_fallbacks::{name}", function, lib=library)
    return getattr(ops, name).default


double_softplus = define(
    "double_softplus(Tensor x, int n) -> Tensor", lambda x, n: torch.nn.functional.softplus(x) * n
)
halves = define("halves(Tensor x) -> (Tensor, Tensor)", lambda x: (x / 2, x.size(0) * x))
unknown = define("unknown(Tensor x) -> Tensor", lambda x: x + 1)
in_library = define(
    "in_library(Tensor x, float alpha=1.0) -> Tensor", lambda x, alpha=1.0: x * alpha
)
branching = define(
    "branching(Tensor x) -> Tensor", lambda x: torch.where(x.sum() > 0, x * 2, x - 1)
)


@register_decomposition([double_softplus])
def decomposed_softplus(x, n):
    return torch.nn.functional.softplus(x) * n


@register_decomposition([halves])
def decomposed_halves(x):
    return x / 2, x.size(0) * x


class Calling(torch.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


def export(function):
    return torch.onnx.export(
        Calling(function),
        (torch.randn(3, 4),),
        dynamo=True,
        dynamic_shapes=({0: torch.export.Dim("batch")},),
        verbose=False,
    )


def check(program, function):
    """Runs at two sizes and compares with eager."""
    onnx.checker.check_model(program.model_proto, full_check=True)
    running = onnxruntime.InferenceSession(program.model_proto.SerializeToString())
    for size in (3, 5):
        x = torch.randn(size, 4)
        results = running.run(None, {"x": x.numpy()})
        expected = function(x)
        expected = expected if isinstance(expected, tuple) else (expected,)
        for result, wanted in zip(results, expected, strict=True):
            torch.testing.assert_close(torch.from_numpy(result), wanted)


@pytest.mark.parametrize(
    ("function", "op"),
    [
        (lambda x: double_softplus(x + 1, 3), "double_softplus"),
        (lambda x: halves(x), "halves"),
        (lambda x: halves(x)[1], "halves"),
    ],
)
def test_decomposition(function, op):
    with onnx_native.fallbacks(True):
        program = export(function)
    assert program.export_report["fallbacks"] == {f"onnx_native_fallbacks::{op}": "decomposition"}
    check(program, function)


def test_names_of_sizes_stay():
    with onnx_native.fallbacks(True):
        program = export(lambda x: halves(x))
    shape = program.model_proto.graph.output[0].type.tensor_type.shape
    assert shape.dim[0].dim_param == "batch"


@pytest.fixture
def in_function_library():
    """Registers functions for the operators above and removes them afterwards."""

    def scaled(x, alpha: float = 1.0):
        return opset18.Mul(x, opset18.Constant(value_float=alpha))

    registry = _onnxscript._function_library()
    before = dict(registry.functions)
    registry.register_op(in_library, scaled)
    registry.register_op(branching, branch)
    yield
    registry.functions = before


@script()
def branch(x: FLOAT) -> FLOAT:
    total = opset18.ReduceSum(x, keepdims=0)
    positive = total > 0.0
    if positive:  # noqa: SIM108
        result = x * 2.0
    else:
        result = x - 1.0
    return result


@pytest.mark.usefixtures("in_function_library")
@pytest.mark.parametrize(
    ("function", "op"),
    [
        (lambda x: in_library(x, 2.5), "in_library"),
        (lambda x: in_library(x) + 1, "in_library"),
        (lambda x: branching(x), "branching"),
    ],
)
def test_function_library(function, op):
    with onnx_native.fallbacks(True):
        program = export(function)
    fallbacks = program.export_report["fallbacks"]
    assert fallbacks == {f"onnx_native_fallbacks::{op}": "function library"}
    check(program, function)


def test_native_lowerings_need_no_net():
    with onnx_native.fallbacks(True):
        program = export(lambda x: torch.softmax(x, 1))
    assert program.export_report["fallbacks"] == {}


@pytest.mark.parametrize("enabled", [True, False])
def test_what_nobody_knows_is_an_error(enabled):
    with (
        onnx_native.fallbacks(enabled),
        pytest.raises(torch.onnx.OnnxExporterError, match="onnx_native_fallbacks::unknown"),
    ):
        export(lambda x: unknown(x))


def test_switched_off():
    with (
        onnx_native.fallbacks(False),
        pytest.raises(torch.onnx.OnnxExporterError, match="onnx_native_fallbacks::halves"),
    ):
        export(lambda x: halves(x))


def test_the_option_takes_precedence():
    with onnx_native.fallbacks(False), onnx_native.options(fallbacks=True):
        program = export(lambda x: halves(x))
        assert list(program.export_report["fallbacks"]) == ["onnx_native_fallbacks::halves"]
        with (
            onnx_native.options(fallbacks=False),
            pytest.raises(torch.onnx.OnnxExporterError, match="onnx_native_fallbacks::halves"),
        ):
            export(lambda x: halves(x))
