"""The multilayer perceptron of PyTorch's documentation: a tensor, a dict and a list as inputs."""

import onnx
import pytest
import torch

from models import running

INPUT_NAMES = ["tensor_input", "tensor_x", "list_input_index_0"]


class MLP(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc_combined = torch.nn.Linear(8 + 8 + 8, 8)
        self.fc0 = torch.nn.Linear(8, 8)
        self.fc1 = torch.nn.Linear(8, 4)
        self.fc2 = torch.nn.Linear(4, 2)
        self.fc3 = torch.nn.Linear(2, 2)

    def forward(
        self,
        tensor_x: torch.Tensor,
        input_dict: dict[str, torch.Tensor],
        inputs: list[torch.Tensor],
    ):
        x = torch.cat([tensor_x, input_dict["tensor_x"], inputs[0]], dim=1)
        x = torch.sigmoid(self.fc_combined(x))
        for hidden in (self.fc0, self.fc1, self.fc2):
            x = torch.sigmoid(hidden(x))
        return self.fc3(x)


def arguments(rows: int) -> tuple[torch.Tensor, dict[str, torch.Tensor], list[torch.Tensor]]:
    return torch.rand(rows, 8), {"tensor_x": torch.rand(rows, 8)}, [torch.rand(rows, 8)]


def flat(args) -> dict[str, torch.Tensor]:
    return dict(zip(INPUT_NAMES, (args[0], args[1]["tensor_x"], args[2][0]), strict=True))


@pytest.fixture(scope="module")
def model() -> torch.nn.Module:
    torch.manual_seed(0)
    return MLP().eval()


@pytest.fixture(scope="module")
def onnx_program(model) -> torch.onnx.ONNXProgram:
    program = torch.onnx.export(
        model,
        arguments(97),
        dynamic_shapes=({0: "batch_size"}, {"tensor_x": {0: "batch_size"}}, [{0: "batch_size"}]),
        input_names=INPUT_NAMES,
        output_names=["output"],
        dynamo=True,
        verbose=False,
    )
    assert program is not None
    return program


def test_names_and_shapes(onnx_program):
    graph = onnx_program.model.graph
    assert [value.name for value in graph.inputs] == INPUT_NAMES
    for value in graph.inputs:
        assert value.shape == ("batch_size", 8)
    assert [value.name for value in graph.outputs] == ["output"]
    assert graph.outputs[0].shape == ("batch_size", 2)


def test_initializers_are_named_as_in_state_dict(onnx_program, model):
    assert set(model.state_dict()) <= set(onnx_program.model.graph.initializers)


@pytest.mark.parametrize("rows", [97, 1, 5])
def test_saved_file_equals_eager(onnx_program, model, rows, tmp_path):
    path = tmp_path / "mlp.onnx"
    onnx_program.save(path)
    onnx.checker.check_model(str(path), full_check=True)
    args = arguments(rows)
    got = running.run(running.session(path), flat(args))
    running.assert_same(got, [model(*args).detach()])


def test_program_is_callable(onnx_program, model):
    args = arguments(4)
    (got,) = onnx_program(*args)
    running.assert_same([got], [model(*args).detach()])


def test_model_proto(onnx_program):
    proto = onnx_program.model_proto
    assert proto.producer_name == "onnx_native"
    assert [opset.version for opset in proto.opset_import if not opset.domain] == [20]
