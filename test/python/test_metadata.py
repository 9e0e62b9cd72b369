"""What a model records of its program, compared with PyTorch's own exporter."""

import pathlib
from typing import Any

import onnx
import onnx_native
import pytest
import torch
from torch import nn

EACH_CAPTURE = pytest.mark.captures("auto", "torch.export")

_FX = "pkg.torch.onnx."
_KIND = "pkg.torch.export.graph_signature."


class Inner(nn.Module):
    scale: torch.Tensor
    shift: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(4, 4)
        self.register_buffer("scale", torch.rand(4))
        self.register_buffer("shift", torch.rand(4), persistent=False)

    def normalized(self, x: torch.Tensor) -> torch.Tensor:
        return nn.functional.layer_norm(x * self.scale, (4,))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.normalized(self.fc(x)) + self.shift
        return torch.softmax(y, -1) - y.sum(dim=1, keepdim=True)


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = Inner()
        self.layers = nn.ModuleList([nn.Sequential(nn.Linear(4, 2), nn.ReLU())])

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> Any:
        z = self.inner(x)
        for layer in self.layers:
            z = layer(z)
        return z / y.view(-1, 2), nn.functional.gelu(z, approximate="tanh")


ARGS = (torch.randn(3, 4), torch.randn(3, 2))


def exported(module: nn.Module, args: Any = ARGS, **kwargs: Any) -> Any:
    return torch.onnx.export(module.eval(), args, dynamo=True, verbose=False, **kwargs)


def properties(entry: Any) -> dict[str, str]:
    return {prop.key: prop.value for prop in entry.metadata_props}


def by_output(program: Any) -> dict[str, dict[str, str]]:
    return {node.output[0]: properties(node) for node in program.model_proto.graph.node}


def interface(program: Any) -> dict[str, dict[str, str]]:
    """The metadata of inputs, outputs and weights; weights by the names of their placeholders."""
    graph = program.model_proto.graph
    found = {value.name: properties(value) for value in (*graph.input, *graph.output)}
    for value in graph.value_info:
        of_weight = properties(value)
        if _FX + "original_node_name" in of_weight:
            found[of_weight[_FX + "original_node_name"]] = of_weight
    return found


@EACH_CAPTURE
def test_nodes_have_the_metadata_of_pytorchs_exporter() -> None:
    module = Net()
    with onnx_native.disabled():
        theirs = by_output(exported(module, optimize=False))
    ours = by_output(exported(module, optimize=False))
    keys = ("namespace", _FX + "class_hierarchy", _FX + "name_scopes")
    compared = 0
    for name, expected in theirs.items():
        if name not in ours or "namespace" not in expected:
            continue
        compared += 1
        assert {key: ours[name].get(key) for key in keys} == {key: expected[key] for key in keys}
        arguments, keywords = ours[name][_FX + "fx_node"].split("), kwargs")
        # A buffer has the module's name for it, and PyTorch's decompositions fill in defaults.
        wanted = expected[_FX + "fx_node"].replace("b_inner_", "inner.")
        assert wanted.startswith(arguments)
        assert wanted.endswith(keywords)
    assert compared >= 8
    assert ours["linear"]["namespace"].endswith("/linear: aten.linear.default")


@EACH_CAPTURE
def test_inputs_outputs_and_parameters_are_those_of_pytorchs_exporter() -> None:
    module = Net()
    with onnx_native.disabled():
        theirs = interface(exported(module))
    program = exported(module)
    ours = interface(program)
    assert ours == {name: theirs[name] for name in theirs if not name.startswith("b_")}
    assert ours["p_layers_0_0_weight"][_KIND + "InputSpec.kind"] == "PARAMETER"
    onnx.checker.check_model(program.model_proto, full_check=True)


def test_types_of_weights(tmp_path: pathlib.Path) -> None:
    """As PyTorch's exporter writes them, but for shapes that ONNX Runtime's quantizers change."""
    program = exported(Net())
    assert all(value.type and value.shape for value in program.model.graph.initializers.values())
    path = tmp_path / "model.onnx"
    program = exported(Net())
    program.save(path)
    graph = onnx.load(path).graph
    turned = {
        node.input[1]
        for node in graph.node
        if node.op_type == "Gemm" and any(one.name == "transB" and one.i for one in node.attribute)
    }
    shapes = {weight.name: list(weight.dims) for weight in graph.initializer}
    for value in graph.value_info:
        if value.name not in shapes:
            continue
        tensor = value.type.tensor_type
        assert tensor.HasField("shape") == (value.name not in turned)
        if value.name not in turned:
            assert [size.dim_value for size in tensor.shape.dim] == shapes[value.name]


class Counts(nn.Module):
    calls: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("calls", torch.zeros(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        return x + self.calls


@EACH_CAPTURE
def test_state_has_the_kind_of_a_mutation() -> None:
    with onnx_native.options(state=True):
        graph = exported(Counts(), (torch.randn(2),)).model_proto.graph
    inputs = {value.name: properties(value) for value in graph.input}
    outputs = {value.name: properties(value) for value in graph.output}
    assert inputs["calls"] == {_KIND + "InputSpec.kind": "BUFFER"}
    assert outputs["calls_out"] == {_KIND + "OutputSpec.kind": "BUFFER_MUTATION"}


class Branches(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        def more(x: torch.Tensor) -> torch.Tensor:
            return x.sin() + 1

        def less(x: torch.Tensor) -> torch.Tensor:
            return x.cos() - 1

        return torch.cond(x.sum() > 0, more, less, (x.sin() * 2,)) + 3


@EACH_CAPTURE
def test_calls_in_branches() -> None:
    graph = exported(Branches(), (torch.randn(3),)).model_proto.graph
    (branching,) = (node for node in graph.node if node.op_type == "If")
    bodies = [attribute.g for attribute in branching.attribute]
    calls = {"Sin": "aten.sin.default", "Cos": "aten.cos.default", "Mul": "aten.mul.Tensor"}
    found = {}
    for node in (node for part in (graph, *bodies) for node in part.node):
        if node.op_type in calls:
            found[node.op_type] = properties(node)
            assert properties(node)["namespace"].endswith(": " + calls[node.op_type])
    assert set(found) == set(calls)


@EACH_CAPTURE
def test_files_have_the_same_metadata(tmp_path: Any) -> None:
    program = exported(Net())
    program.save(tmp_path / "m.onnx")
    assert by_output(program) == {
        node.output[0]: properties(node) for node in onnx.load(tmp_path / "m.onnx").graph.node
    }
    with onnx_native.options(metadata=False):
        bare = exported(Net())
    graph = bare.model_proto.graph
    entries = (graph, *graph.node, *graph.input, *graph.output, *graph.value_info)
    assert not any(entry.metadata_props for entry in entries)


def test_parameters_that_are_also_inputs() -> None:
    program = exported(Net(), keep_initializers_as_inputs=True)
    onnx.checker.check_model(program.model_proto, full_check=True)
    assert by_output(program)["gelu"]["namespace"].endswith("/gelu: aten.gelu.default")
