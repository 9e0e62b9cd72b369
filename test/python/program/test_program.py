"""The program that torch.onnx.export returns."""

import numpy as np
import onnx
import onnx_ir as ir
import onnx_native
import onnxruntime as ort
import pytest
import torch

pytestmark = pytest.mark.captures("auto", "torch.export")


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(64, 32)
        self.shift = torch.nn.Parameter(torch.ones(32))

    def forward(self, x):
        return self.linear(x).abs() + self.shift  # a shift of a product would be part of its bias


@pytest.fixture
def net():
    torch.manual_seed(0)
    return Net().eval()


@pytest.fixture
def x():
    return torch.randn(4, 64)


@pytest.fixture
def program(net, x):
    return torch.onnx.export(net, (x,), dynamic_shapes=({0: "batch"},), verbose=False)


def run_file(path, x):
    session = ort.InferenceSession(path, providers=["CPUExecutionProvider"])
    return torch.from_numpy(session.run(None, {session.get_inputs()[0].name: x.numpy()})[0])


def test_is_an_onnx_program(program):
    assert isinstance(program, torch.onnx.ONNXProgram)
    assert isinstance(program.exported_program, torch.export.ExportedProgram)
    assert "ONNXProgram(" in repr(program)


def test_call_equals_eager(program, net, x):
    torch.testing.assert_close(program(x)[0], net(x))
    torch.testing.assert_close(program(x[:1])[0], net(x[:1]))
    program.release()
    torch.testing.assert_close(program(x)[0], net(x))


@pytest.mark.parametrize("metadata", [True, False])
def test_nodes_say_where_they_come_from_unless_asked_not_to(net, x, tmp_path, metadata):
    with onnx_native.options(metadata=metadata):
        program = torch.onnx.export(net, (x,), verbose=False)
    program.save(tmp_path / "m.onnx")
    for model in (onnx.load(tmp_path / "m.onnx"), program.model_proto):
        assert [bool(node.metadata_props) for node in model.graph.node] == [metadata] * 3
    assert [bool(node.metadata_props) for node in program.model.graph] == [metadata] * 3


def test_model_shares_the_weights_memory(program, net):
    weight = program.model.graph.initializers["linear.weight"].const_value
    assert isinstance(program.model, ir.Model)
    assert weight.raw.data_ptr() == net.linear.weight.data_ptr()


def test_model_equals_what_was_saved(program, net, x, tmp_path):
    program.save(tmp_path / "native.onnx")
    native = (tmp_path / "native.onnx").read_bytes()
    assert program.model_proto.SerializeToString(deterministic=True) == onnx.load_from_string(
        native
    ).SerializeToString(deterministic=True)
    onnx.checker.check_model(program.model_proto, full_check=True)
    program.save(tmp_path / "edited.onnx")
    torch.testing.assert_close(run_file(tmp_path / "edited.onnx", x), net(x))


def test_edits_are_what_is_saved_and_run(program, net, x, tmp_path):
    program.model.graph.outputs[0].name = "renamed"
    shift = program.model.graph.initializers["shift"]
    shift.const_value = ir.tensor(torch.zeros(32).numpy(), name="shift")
    torch.testing.assert_close(program(x)[0], net.linear(x).abs())
    for external in (True, False):
        path = tmp_path / f"m{external}.onnx"
        program.save(path, external_data=external)
        assert onnx.load(path).graph.output[0].name == "renamed"
        torch.testing.assert_close(run_file(path, x), net.linear(x).abs())


def test_external_data(program, net, x, tmp_path):
    program.save(tmp_path / "m.onnx", external_data=True)
    assert (tmp_path / "m.onnx.data").stat().st_size >= 64 * 32 * 4
    torch.testing.assert_close(run_file(tmp_path / "m.onnx", x), net(x))
    program.save(tmp_path / "inline.onnx", external_data=False)
    assert not (tmp_path / "inline.onnx.data").exists()
    torch.testing.assert_close(run_file(tmp_path / "inline.onnx", x), net(x))


def test_initializers_as_inputs(program, net, x, tmp_path):
    program.save(tmp_path / "m.onnx", keep_initializers_as_inputs=True)
    session = ort.InferenceSession(tmp_path / "m.onnx", providers=["CPUExecutionProvider"])
    zeros = torch.zeros(32).numpy()
    (got,) = session.run(None, {"x": x.numpy(), "shift": zeros})
    torch.testing.assert_close(torch.from_numpy(got), net.linear(x).abs())
    program.save(tmp_path / "none.onnx", include_initializers=False)
    assert not onnx.load(tmp_path / "none.onnx").graph.initializer
    torch.testing.assert_close(program(x)[0], net(x))


def test_compute_values(program, net, x):
    name = program.model.graph.outputs[0].name
    (got,) = program.compute_values([name], (x,))
    torch.testing.assert_close(got, net(x))
    with pytest.raises(ValueError, match="not found in the model"):
        program.compute_values(["no such value"], (x,))


def test_rename_axes(program):
    assert program.model.graph.inputs[0].shape == ("batch", 64)
    program.rename_axes({"batch": "rows"})
    assert program.model.graph.inputs[0].shape == ("rows", 64)
    assert program.model.graph.outputs[0].shape == ("rows", 32)


def test_session_can_be_made_by_the_caller(program, net, x):
    seen = []

    def initializer(model):
        seen.append(model)
        return ort.InferenceSession(model, providers=["CPUExecutionProvider"])

    program.initialize_inference_session(initializer)
    torch.testing.assert_close(program(x)[0], net(x))
    assert isinstance(seen[0], bytes)


def test_specialized_inputs_are_skipped():
    class Model(torch.nn.Module):
        def forward(self, x, times, y=None, nothing=None):
            return x * times + y

    x, y = torch.ones(2), torch.ones(2)
    program = torch.onnx.export(Model(), (x, 3, y, None), verbose=False)
    assert [value.name for value in program.model.graph.inputs] == ["x", "y"]
    torch.testing.assert_close(program(x, 3, y, None)[0], x * 3 + y)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.int64, torch.bool])
def test_dtypes_of_inputs_and_weights(dtype):
    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("table", torch.tensor([[0, 1], [1, 1]]).to(dtype))

        def forward(self, x):
            return torch.cat([x, self.table])

    x = torch.tensor([[1, 0]]).to(dtype)
    program = torch.onnx.export(Model(), (x,), verbose=False)
    (got,) = program(x)
    assert got.dtype == dtype
    assert torch.equal(got, Model()(x))


def test_results_of_uint64():
    """ONNX Runtime's NumPy type for them is another than torch's."""

    class Model(torch.nn.Module):
        def forward(self, x):
            return x.to(torch.uint64)

    x = torch.tensor([3, 2**40])
    (got,) = torch.onnx.export(Model(), (x,), verbose=False)(x)
    assert torch.equal(got, x.to(torch.uint64))


def test_program_outlives_the_module(x):
    net = Net().eval()
    expected = net(x)
    program = torch.onnx.export(net, (x,), verbose=False)
    program.exported_program = None
    del net
    torch.testing.assert_close(program(x)[0], expected)


class Branches(torch.nn.Module):
    """Arithmetic with a weight in a branch, which the export folds."""

    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(4, 4))

    def forward(self, x):
        return torch.cond(x.sum() > 0, lambda x: x @ (self.weight * 2), lambda x: x - 1, (x,))


def test_a_weight_folded_in_a_branch(tmp_path):
    module, x = Branches().eval(), torch.ones(3, 4)
    program = torch.onnx.export(module, (x,), dynamo=True, verbose=False)
    stored = program.model.graph.initializers.values()  # of the main graph, where tools look
    doubled = module.weight.detach() * 2
    assert any(np.array_equal(v.const_value.numpy(), doubled.numpy()) for v in stored)
    program.save(tmp_path / "branches.onnx")
    running = ort.InferenceSession(tmp_path / "branches.onnx", providers=["CPUExecutionProvider"])
    (result,) = running.run(None, {running.get_inputs()[0].name: x.numpy()})
    torch.testing.assert_close(torch.from_numpy(result), module(x).detach())
    other = Branches().eval()
    program.model.graph.name = "edited"
    program.apply_weights(other.state_dict())
    torch.testing.assert_close(program(x)[0], other(x).detach())
