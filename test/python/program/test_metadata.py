"""What a model records of its program, compared with PyTorch's own exporter."""

import importlib
import pathlib
import re
from typing import Any

import onnx
import onnx_native
import pytest
import torch
from onnx_native import _library
from torch import nn

EACH_CAPTURE = pytest.mark.captures("auto", "torch.export")

_FX = "pkg.torch.onnx."
_KIND = "pkg.torch.export.graph_signature."
_SIGNATURE = "pkg.torch.export.ExportedProgram.graph_signature"


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
        # PyTorch's decompositions fill in defaults.
        wanted = expected[_FX + "fx_node"]
        assert wanted.startswith(arguments)
        assert wanted.endswith(keywords)
    assert compared >= 8
    assert ours["linear"]["namespace"].endswith("/linear: aten.linear.default")


@EACH_CAPTURE
def test_inputs_outputs_and_parameters_are_those_of_pytorchs_exporter() -> None:
    module = Net()
    with onnx_native.disabled():
        theirs = interface(exported(module, optimize=False))
    program = exported(module, optimize=False)
    ours = interface(program)
    assert ours == theirs
    assert ours["b_inner_scale"][_KIND + "InputSpec.persistent"] == "True"
    assert ours["b_inner_shift"][_KIND + "InputSpec.persistent"] == "False"
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
    assert inputs["calls"] == {
        _KIND + "InputSpec.kind": "BUFFER",
        _KIND + "InputSpec.persistent": "True",
        _FX + "original_node_name": "b_calls",
    }
    assert outputs["calls_out"] == {_KIND + "OutputSpec.kind": "BUFFER_MUTATION"}


class Branches(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        def more(x: torch.Tensor) -> torch.Tensor:
            return x.sin() + 1

        def less(x: torch.Tensor) -> torch.Tensor:
            return x.cos() - 1

        return torch.cond(x.sum() > 0, more, less, (x.sin() * 2,)) + 3


class Holds(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(Inner(), nn.Tanh())
        self.held = torch.rand(4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers(x) * self.held


def signature(program: Any) -> tuple[set[str], str]:
    """The lines of the signature, and the ranges."""
    found = properties(program.model_proto.graph)
    ranges = found["pkg.torch.export.ExportedProgram.range_constraints"]
    return set(found[_SIGNATURE].splitlines()), ranges


@EACH_CAPTURE
def test_the_graph_has_the_signature_of_the_program() -> None:
    module, args = Holds(), (torch.randn(3, 4),)
    shapes = {"dynamic_shapes": ({0: torch.export.Dim("batch", min=2, max=100)},)}
    with onnx_native.disabled():
        theirs, _ = signature(exported(module, args, **shapes))
    ours, ranges = signature(exported(module, args, **shapes))
    # PyTorch numbers the names of results by the calls of its decompositions.
    assert {line for line in ours if "USER_OUTPUT" not in line} < theirs
    assert len(ours) == len(theirs)
    assert "c_held: CONSTANT_TENSOR target='held'" in ours
    assert "b_layers_0_shift: BUFFER target='layers.0.shift' persistent=False" in ours
    # The model also runs at sizes for which the program was not captured.
    assert ranges == "{batch: VR[0, int_oo]}"


@EACH_CAPTURE
def test_the_signature_names_mutations() -> None:
    module = Counts()
    with onnx_native.disabled():
        theirs, _ = signature(exported(module, (torch.randn(2),)))
    with onnx_native.options(state=True):
        ours, ranges = signature(exported(module, (torch.randn(2),)))
    assert "b_calls: BUFFER target='calls' persistent=True" in ours & theirs
    assert any(line.endswith(": BUFFER_MUTATION target='calls'") for line in ours)
    assert ranges == "{}"


def frames(trace: str) -> list[tuple[str, str]]:
    """The file names and functions of a stack trace's frames outside of PyTorch."""
    found = re.findall(r'File "([^"]*)", line (\d+), in (\w+)', trace)
    return [
        (f"{pathlib.PurePath(path).name}:{line}", function)
        for path, line, function in found
        if "torch/nn/" not in path
    ]


@EACH_CAPTURE
def test_stack_traces_have_all_frames_of_the_user() -> None:
    module = Net()
    key = _FX + "stack_trace"
    with onnx_native.disabled():
        theirs = by_output(exported(module, optimize=False))
    ours = by_output(exported(module, optimize=False))
    compared = [name for name in ours if name in theirs and "Net" in theirs[name]["namespace"]]
    assert {"linear", "layer_norm", "gelu"} <= set(compared)
    for name in compared:
        found = frames(ours[name][key])
        # torch.export leaves out the frames of other functions than forward.
        kept = [frame for frame in found if frame[1] == "forward"]
        assert kept == frames(theirs[name][key])
        assert "/" not in ours[name][key].split('"')[1]


def test_the_native_capture_has_the_frames_of_all_functions() -> None:
    trace = by_output(exported(Net(), optimize=False))["layer_norm"][_FX + "stack_trace"]
    assert [function for _, function in frames(trace)] == ["forward", "forward", "normalized"]


class Nested(torch.nn.Module):
    def __init__(self, depth: int) -> None:
        super().__init__()
        self.inner = Nested(depth - 1) if depth else torch.nn.Identity()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.inner(x.sin())


def test_stack_traces_of_deep_modules_have_the_innermost_frames() -> None:
    nodes = exported(Nested(50), (torch.ones(2),), optimize=False).model_proto.graph.node
    found = [
        frames(properties(node)[_FX + "stack_trace"]) for node in nodes if node.op_type == "Sin"
    ]
    assert [len(trace) for trace in found] == [min(i + 1, 32) for i in range(51)]
    assert len({trace[-1] for trace in found}) == 1


def test_frames_in_a_package_have_its_path(tmp_path: Any, monkeypatch: Any) -> None:
    folder = tmp_path / "models_of_the_test" / "layers"
    folder.mkdir(parents=True)
    for part in (folder.parent, folder):
        (part / "__init__.py").touch()
    (folder / "scale.py").write_text(
        "import torch\n\n\n"
        "class Scale(torch.nn.Module):\n"
        "    def forward(self, x):\n"
        "        return x * 2\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    scale = importlib.import_module("models_of_the_test.layers.scale").Scale()
    (node,) = by_output(exported(scale, (torch.randn(2),))).values()
    assert node[_FX + "stack_trace"] == (
        'File "models_of_the_test/layers/scale.py", line 6, in forward\n    return x * 2'
    )


@pytest.mark.parametrize("level", ["none", "names", "full"])
def test_levels(level: str) -> None:
    with onnx_native.options(metadata=level):
        program = exported(Net())
    graph = program.model_proto.graph
    keys = {
        prop.key
        for entry in (graph, *graph.node, *graph.input, *graph.output, *graph.value_info)
        for prop in entry.metadata_props
    }
    names = {
        "namespace",
        _FX + "class_hierarchy",
        _FX + "name_scopes",
        _FX + "original_node_name",
        _KIND + "InputSpec.kind",
        _KIND + "InputSpec.persistent",
        _KIND + "OutputSpec.kind",
    }
    prefix = "pkg.torch.export.ExportedProgram."
    everything = names | {
        _FX + "fx_node",
        _FX + "stack_trace",
        prefix + "graph_signature",
        prefix + "range_constraints",
    }
    assert keys == {"none": set(), "names": names, "full": everything}[level]


def test_an_unknown_level_is_refused() -> None:
    with (
        pytest.raises(ValueError, match="metadata= takes one of 'none', 'names', 'full'"),
        onnx_native.options(metadata="some"),
    ):
        pass


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


def test_archives_and_torchscript_have_the_signature(tmp_path: pathlib.Path) -> None:
    """As the module's own export, but for what TorchScript does not know."""
    module, args = Holds(), (torch.randn(3, 4),)
    with onnx_native.options(capture="torch.export"):
        program = exported(module, args)
    expected, _ = signature(program)
    torch.export.save(torch.export.export(module, args), tmp_path / "module.pt2")
    torch.jit.script(module).save(tmp_path / "module.pt")
    found = {}
    for archive, flags in (("module.pt2", []), ("module.pt", ["--input", "x:float32[3,4]"])):
        target = tmp_path / f"{archive}.onnx"
        arguments = [str(tmp_path / archive), "-o", str(target), *flags]
        assert _library.extension().command_line(arguments) == 0
        found[archive] = onnx.load(target)
    archive, script = (
        {line for line in properties(model.graph)[_SIGNATURE].splitlines() if "USER" not in line}
        for model in found.values()
    )
    assert archive == {line for line in expected if "USER" not in line}
    assert "b_layers_0_shift: BUFFER target='layers.0.shift' persistent=False" in archive
    assert script == {line.replace("persistent=False", "persistent=True") for line in archive}


def test_parameters_that_are_also_inputs() -> None:
    program = exported(Net(), keep_initializers_as_inputs=True)
    onnx.checker.check_model(program.model_proto, full_check=True)
    assert by_output(program)["gelu"]["namespace"].endswith("/gelu: aten.gelu.default")
