"""Names of values and nodes: those of the program, on every route."""

from __future__ import annotations

import pathlib
from typing import Any

import numpy as np
import onnx
import onnx_native
import onnxruntime as ort
import pytest
import torch
from onnx_native import _library


class Block(torch.nn.Module):
    """A convolution with its normalization, and a residual network after it."""

    def __init__(self, layers: int = 2) -> None:
        super().__init__()
        self.conv = torch.nn.Conv2d(3, 8, 3, padding=1, bias=False)
        self.norm = torch.nn.BatchNorm2d(8)
        self.layers = torch.nn.ModuleList(torch.nn.Linear(8, 8) for _ in range(layers))
        self.last = torch.nn.LayerNorm(8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.norm(self.conv(x)).relu().mean((2, 3))
        for layer in self.layers:
            x = torch.nn.functional.gelu(layer(x)) + x
        low, high = self.last(x).chunk(2, -1)
        return low.softmax(-1) * high.max(-1, keepdim=True).values


class Attention(torch.nn.Module):
    """Attention as it is commonly written; passes fuse it."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv = torch.nn.Linear(16, 48)
        self.out = torch.nn.Linear(16, 16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = (part.view(2, 5, 4, 4).transpose(1, 2) for part in self.qkv(x).split(16, dim=-1))
        weights = (q @ k.transpose(-1, -2) / 2.0).softmax(-1)
        mixed = (weights @ v).transpose(1, 2).reshape(2, 5, 16)
        root = (mixed * mixed).mean(-1, keepdim=True).add(1e-6).rsqrt()
        return self.out(mixed * root).clamp(-1, 1)


class Writes(torch.nn.Module):
    """In-place operators and writes through views."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x.clone()
        y[:, 0] = 1.0
        y.add_(x)
        return torch.cat([y, y.flip(0)]).cumsum(0)


MODELS = {
    "block": (Block(), (torch.randn(2, 3, 6, 6),)),
    "attention": (Attention(), (torch.randn(2, 5, 16),)),
    "encoder": (
        torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True),
        (torch.randn(2, 5, 8),),
    ),
    "gru": (torch.nn.GRU(4, 6, batch_first=True), (torch.randn(2, 5, 4),)),
    "writes": (Writes(), (torch.randn(3, 4),)),
}


def export(model: torch.nn.Module, args: Any, **options: Any) -> Any:
    program = torch.onnx.export(model.eval(), args, dynamo=True, verbose=False, **options)
    onnx.checker.check_model(program.model_proto, full_check=True)
    return program


def names_of(proto: onnx.ModelProto) -> tuple[list[str], list[str]]:
    """The names of all nodes and of their results."""
    nodes = [node.name for node in proto.graph.node]
    return nodes, [name for node in proto.graph.node for name in node.output if name]


class Values(torch.fx.Interpreter):
    """Eager's values of a captured program, by the names of its nodes."""

    def __init__(self, captured: torch.export.ExportedProgram) -> None:
        super().__init__(captured.module())
        self.found: dict[str, Any] = {}

    def run_node(self, n: torch.fx.Node) -> Any:
        result = super().run_node(n)
        if isinstance(result, torch.Tensor) and n.op == "call_function":
            self.found[n.name] = result.detach().clone()
        return result


@pytest.mark.captures("auto", "torch.export")
@pytest.mark.parametrize("optimize", [False, True])
@pytest.mark.parametrize("name", MODELS)
def test_named_values_are_those_of_the_program(name: str, optimize: bool) -> None:
    """Also after fusions, a value with the program's name has the program's elements."""
    model, args = MODELS[name]
    program = export(model, args, optimize=optimize)
    captured = Values(program.exported_program)
    captured.run(*args)
    proto = program.model_proto
    _, names = names_of(proto)
    shared = [each for each in names if each in captured.found]
    fewest = {"block": 12, "attention": 10, "encoder": 10, "gru": 2, "writes": 3}
    assert len(shared) >= (1 if optimize else fewest[name])
    known = {output.name for output in proto.graph.output}
    proto.graph.output.extend(
        onnx.ValueInfoProto(name=each) for each in shared if each not in known
    )
    settings = ort.SessionOptions()
    settings.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = ort.InferenceSession(proto.SerializeToString(), settings)
    feeds = dict(zip([i.name for i in session.get_inputs()], map(np.asarray, args), strict=True))
    for each, value in zip(shared, session.run(shared, feeds), strict=True):
        np.testing.assert_allclose(value, captured.found[each], rtol=1e-4, atol=1e-5, err_msg=each)


@pytest.mark.parametrize("name", MODELS)
def test_every_route_gives_the_same_names(name: str, tmp_path: pathlib.Path) -> None:
    model, args = MODELS[name]
    model.eval()
    found = {}
    for capture in ("native", "torch.export"):
        with onnx_native.options(capture=capture):
            found[capture] = names_of(export(model, args).model_proto)
    torch.export.save(torch.export.export(model, args), tmp_path / "m.pt2")
    command = [str(tmp_path / "m.pt2"), "-o", str(tmp_path / "m.onnx")]
    assert _library.extension().command_line(command) == 0
    found["pt2"] = names_of(onnx.load(tmp_path / "m.onnx"))
    assert found["native"] == found["torch.export"] == found["pt2"]


@pytest.mark.captures("auto", "torch.export")
def test_names_are_pytorchs() -> None:
    model, args = MODELS["block"]
    nodes, names = names_of(export(model, args).model_proto)
    assert {"relu", "linear", "linear_1", "add", "add_1", "layer_norm", "softmax", "mul"} <= {
        *names
    }
    assert {"node_linear", "node_layer_norm", "node_softmax"} <= {*nodes}
    with onnx_native.disabled():
        theirs = torch.onnx.export(model, args, dynamo=True, verbose=False)
    outputs = [output.name for output in theirs.model_proto.graph.output]
    assert [output.name for output in export(model, args).model_proto.graph.output] == outputs
    for part in (nodes, names):
        assert len({*part}) == len(part)
        assert not any(each.startswith("val_") for each in part)


def test_helpers_are_named_for_their_call() -> None:
    class Cosine(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.nn.functional.cosine_similarity(x, x + 1, dim=-1)

    nodes, names = names_of(export(Cosine(), (torch.randn(2, 4),), optimize=False).model_proto)
    assert all(each.startswith(("cosine_similarity", "add")) for each in names), names
    assert all(each.startswith(("node_cosine_similarity", "node_add")) for each in nodes), nodes


@pytest.mark.captures("auto", "torch.export")
def test_folded_normalization_names_its_bias() -> None:
    model, args = MODELS["block"]
    names = {each.name for each in export(model, args).model_proto.graph.initializer}
    assert {"conv.weight", "conv.bias"} <= names

    class Biased(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 1), torch.nn.BatchNorm2d(4))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.a(x)

    proto = export(Biased(), (torch.randn(1, 3, 2, 2),)).model_proto
    assert {each.name for each in proto.graph.initializer} == {"a.0.weight", "a.0.bias"}


@pytest.mark.captures("auto", "torch.export")
@pytest.mark.parametrize("optimize", [False, True])
def test_a_later_layer_renames_nothing(optimize: bool) -> None:
    short, long = (export(Block(n), (torch.randn(2, 3, 6, 6),), optimize=optimize) for n in (2, 3))
    names = [
        {
            name
            for graph in [program.model_proto.graph]
            for name in [*names_of(program.model_proto)[1], *(i.name for i in graph.initializer)]
        }
        for program in (short, long)
    ]
    assert names[0] <= names[1]


CLASHES = [
    (["linear"], ["relu"]),
    (["fc.weight"], ["fc.bias"]),
    (["relu"], ["linear"]),
    (["node_linear"], ["linear_MatMul"]),
    (["Gemm"], ["Relu"]),
    (["输入"], ["sortie é ☃"]),
    (["a b/c"], ["a.b:0"]),
    (["const_0.0_f32"], ["val_0"]),
]


@pytest.mark.captures("auto", "torch.export")
@pytest.mark.parametrize(("inputs", "outputs"), CLASHES)
def test_any_name_of_the_user(inputs: list[str], outputs: list[str]) -> None:
    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc = torch.nn.Linear(4, 4)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.fc(self.fc(x).relu()).relu()

    model, x = Net().eval(), torch.randn(2, 4)
    for optimize in (False, True):
        program = export(model, (x,), input_names=inputs, output_names=outputs, optimize=optimize)
        graph = program.model_proto.graph
        assert [value.name for value in graph.input] == inputs
        assert [value.name for value in graph.output] == outputs
        (result,) = program(x)
        torch.testing.assert_close(result, model(x))


def test_an_output_with_the_name_of_an_input() -> None:
    with pytest.warns(torch.onnx.errors.OnnxExporterWarning, match="the output x is named x_1"):
        program = export(torch.nn.ReLU(), (torch.randn(2),), input_names=["x"], output_names=["x"])
    assert [value.name for value in program.model_proto.graph.output] == ["x_1"]


def test_subgraphs_have_names_of_their_own() -> None:
    class Branches(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = x.sin()
            return torch.cond(x.sum() > 0, lambda x: x.sin().cos(), lambda x: x.cos(), (y,)).sin()

    for capture in ("native", "torch.export"):
        with onnx_native.options(capture=capture):
            proto = export(Branches(), (torch.randn(3),)).model_proto
        _, names = names_of(proto)
        assert {"sin", "sin_1"} <= {*names}
        (branch,) = (node for node in proto.graph.node if node.op_type == "If")
        inner = [name for each in branch.attribute for node in each.g.node for name in node.output]
        assert len({*inner, *names}) == len(inner) + len(names)


def test_torchscript() -> None:
    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc = torch.nn.Linear(4, 4)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.fc(self.fc(x).relu()).clamp(0, 1)

    scripted = torch.jit.script(Net().eval())
    program = torch.onnx.export(scripted, (torch.randn(2, 4),), dynamo=True, verbose=False)
    nodes, names = names_of(program.model_proto)
    assert names == ["linear", "relu", "linear_1", "clamp"]
    assert nodes == ["node_linear", "node_relu", "node_linear_1", "node_clamp"]
