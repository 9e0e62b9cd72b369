"""Symbolic functions that ask for the elements of weights, as those of quantizers do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import onnx_native
import onnxruntime
import pytest
import torch
from models.calling import Calling
from models.recording import assert_native
from torch.onnx import symbolic_helper

X = torch.randn(4, 6, generator=torch.Generator().manual_seed(0))


def fake_quantized(x: torch.Tensor, amax: torch.Tensor) -> torch.Tensor:
    return torch.round(x / (amax / 127)).clamp(-128, 127) * (amax / 127)


def nodes(g: Any, x: Any, amax: torch.Tensor) -> Any:
    axis = None if amax.numel() == 1 else 0
    sizes = symbolic_helper._get_tensor_sizes(x)
    scale = g.op("Constant", value_t=(amax.squeeze() / 127).float())
    zero = g.op("Constant", value_t=torch.zeros_like(amax.squeeze(), dtype=torch.int8))
    quantized = g.op("QuantizeLinear", x, scale, zero, axis_i=axis)
    result = g.op("DequantizeLinear", quantized, scale, zero, axis_i=axis)
    return result.setType(x.type().with_sizes(sizes))


class Declared(torch.autograd.Function):
    """Declares that it needs the elements."""

    @staticmethod
    @symbolic_helper.parse_args("v", "t", "i")
    def symbolic(g: Any, x: Any, amax: torch.Tensor, bits: int) -> Any:
        assert bits == 8
        return nodes(g, x, amax)

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, amax: torch.Tensor, bits: int) -> torch.Tensor:
        return fake_quantized(x, amax)


class InBody(Declared):
    """Asks for the elements in its body."""

    @staticmethod
    def symbolic(g: Any, x: Any, amax: Any, bits: int) -> Any:
        return nodes(g, x, symbolic_helper._parse_arg(amax, "t"))


class ByNode(Declared):
    """Reads the attribute of the constant's node."""

    @staticmethod
    def symbolic(g: Any, x: Any, amax: Any, bits: int) -> Any:
        return nodes(g, x, amax.node().t("value"))


FUNCTIONS = [Declared, InBody, ByNode]


class Quantized(torch.nn.Module):
    """A quantized linear layer, with a scale of the input and one of each row of the weight."""

    def __init__(self, function: Any, change: Callable[[Any], Any] = lambda amax: amax) -> None:
        super().__init__()
        self.function, self.change = function, change
        self.weight = torch.nn.Parameter(torch.arange(24.0).reshape(4, 6) / 7 - 1.5)
        self.register_buffer("amax", torch.tensor(3.0))
        self.rows = torch.nn.Parameter(self.weight.detach().abs().amax(1, keepdim=True))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.function.apply(x, self.change(self.amax), 8)
        weight = self.function.apply(self.weight, self.change(self.rows), 8)
        return torch.nn.functional.linear(x, weight)


def exported(model: torch.nn.Module, **options: Any) -> Any:
    program = torch.onnx.export(model.eval(), (X,), dynamo=True, verbose=False, **options)
    assert program is not None
    return program


def ops_of(program: Any) -> list[str]:
    return [node.op_type for node in program.model_proto.graph.node]


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize(
    "change",
    [lambda amax: amax, lambda amax: amax.detach().float(), lambda amax: (amax * 2).clamp(min=1)],
    ids=["weight", "view", "computed"],
)
@pytest.mark.filterwarnings("error::torch.onnx.errors.OnnxExporterWarning")
def test_elements_of_weights(function: Any, change: Callable[[Any], Any]) -> None:
    model = Quantized(function, change)
    program = exported(model, dynamic_shapes=({0: "batch"},))
    assert_native(program)
    assert ops_of(program).count("QuantizeLinear") >= 1
    assert ops_of(program).count("DequantizeLinear") == 2
    # At its default level, ONNX Runtime's product of int8 saturates on some processors.
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    session = onnxruntime.InferenceSession(program.model_proto.SerializeToString(), options)
    for x in (X, X[:1] * 3):
        (got,) = session.run(None, {"x": x.numpy()})
        torch.testing.assert_close(torch.from_numpy(got), model(x).detach(), atol=1e-4, rtol=1e-4)


def test_the_model_is_valid_for_these_elements() -> None:
    program = exported(Quantized(Declared))
    assert {name for name, _ in program.export_report["known_elements"]} == {"amax", "rows"}


class Scaled(torch.autograd.Function):
    """Takes a weight as a value."""

    @staticmethod
    @symbolic_helper.parse_args("v", "v", "t")
    def symbolic(g: Any, x: Any, weight: Any, factor: torch.Tensor) -> Any:
        return g.op("mine::Scaled", x, weight, factor_f=float(factor))

    @staticmethod
    def forward(ctx: Any, x: Any, weight: torch.Tensor, factor: torch.Tensor) -> torch.Tensor:
        return x * weight * factor


class Weighted(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(6))
        self.register_buffer("factor", torch.tensor(2.5))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return Scaled.apply(x, self.weight, self.factor)


def test_a_value_stays_a_weight() -> None:
    (node,) = exported(Weighted()).model_proto.graph.node
    assert list(node.input)[1:] == ["weight"]
    assert [(a.name, a.f) for a in node.attribute] == [("factor", 2.5)]


class Written(Quantized):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.amax.copy_(torch.maximum(self.amax, x.abs().amax()))
        return super().forward(x)


@pytest.mark.parametrize(
    "model",
    [Calling(lambda x: Declared.apply(x, x.abs().amax(), 8)), Written(Declared)],
    ids=["of_data", "written"],
)
def test_elements_that_change(model: torch.nn.Module) -> None:
    before = {name: value.clone() for name, value in model.state_dict().items()}
    with pytest.warns(torch.onnx.errors.OnnxExporterWarning, match="Declared is not used"):
        program = exported(model)
    model.load_state_dict(before)
    assert "QuantizeLinear" not in ops_of(program)
    assert any("Declared is not used" in text for text in program.export_report["warnings"])


def test_what_torch_export_loses_is_in_the_report() -> None:
    with (
        onnx_native.options(capture="torch.export"),
        pytest.warns(torch.onnx.errors.OnnxExporterWarning, match="Declared is not used"),
    ):
        program = exported(Quantized(Declared))
    assert len(program.export_report["warnings"]) == 1
