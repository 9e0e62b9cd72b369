"""Parameters of recurrent networks are stored as ONNX wants them; no node reorders them."""

from __future__ import annotations

import pathlib
from typing import Any

import onnx
import onnx_native
import pytest
import torch
from program.test_weights import WAYS, export, of_source, saved

KINDS = {"lstm": torch.nn.LSTM, "gru": torch.nn.GRU, "rnn": torch.nn.RNN}
OPTIONS: dict[str, dict[str, Any]] = {
    "plain": {},
    "deep": {"num_layers": 2, "bidirectional": True},
    "no bias": {"bias": False, "bidirectional": True},
    "of one": {"hidden_size": 1},
}


class Net(torch.nn.Module):
    def __init__(self, kind: str = "lstm", **options: Any) -> None:
        super().__init__()
        hidden = options.pop("hidden_size", 36)
        self.layer = KINDS[kind](40, hidden, batch_first=True, **options)

    def forward(self, x: torch.Tensor) -> Any:
        return self.layer(x)[0]


def net(*args: Any, seed: int = 0, **options: Any) -> Net:
    torch.manual_seed(seed)
    return Net(*args, **options).eval()


def example(*sizes: int) -> torch.Tensor:
    torch.manual_seed(1)
    return torch.randn(*sizes, 40)


def operators(program: Any) -> list[str]:
    return [node.op_type for node in program.model_proto.graph.node]


def has_stored_weights(program: Any) -> bool:
    graph = program.model_proto.graph
    stored = {tensor.name for tensor in graph.initializer} | {""}
    layers = [node for node in graph.node if node.op_type in ("LSTM", "GRU", "RNN")]
    return bool(layers) and all(set(node.input[1:4]) <= stored for node in layers)


def numbers(program: Any) -> int:
    """The number of weights that the model stores."""
    tensors = program.model_proto.graph.initializer
    return sum(onnx.numpy_helper.to_array(t).size for t in tensors if t.data_type == 1)


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("opset", [18, 20, 23])
def test_no_node_reorders_weights(kind: str, options: str, opset: int) -> None:
    module = net(kind, **OPTIONS[options])
    dynamic = [torch.export.Dim("batch"), torch.export.Dim("sequence")]
    if kind == "rnn":  # torch.export unrolls it
        dynamic.pop()
    shapes = (dict(enumerate(dynamic)),)
    program = export(module, example(2, 3), opset_version=opset, dynamic_shapes=shapes)
    onnx.checker.check_model(program.model_proto, full_check=True)
    assert has_stored_weights(program)
    assert program.export_report["passes"]["joined_weights"] > 0
    for sizes in ((2, 3), (1, 1), (1, 5), (5, 1)):
        x = example(sizes[0], 3 if kind == "rnn" else sizes[1])
        torch.testing.assert_close(program(x)[0], module(x), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("source", ["module", "program", "trace"])
@pytest.mark.parametrize("way", WAYS)
def test_every_source_and_way(source: str, way: str, tmp_path: pathlib.Path) -> None:
    module, x = net(bidirectional=True), example(2, 3)
    program = export(of_source(module, source, x), x)
    torch.testing.assert_close(saved(program, tmp_path, way, x), module(x), rtol=1e-4, atol=1e-5)
    assert has_stored_weights(program)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("edited", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_a_state_dict_applies_as_it_is(
    kind: str, edited: bool, way: str, tmp_path: pathlib.Path
) -> None:
    program = export(net(kind, bidirectional=True), x := example(2, 3))
    if edited:
        from onnx_ir.tensor_adapters import TorchTensor

        for name, value in program.model.graph.initializers.items():
            if name.startswith("layer"):
                value.const_value = TorchTensor(torch.zeros(tuple(value.shape)), name)
    other = net(kind, bidirectional=True, seed=7)
    program.apply_weights(other.state_dict())
    torch.testing.assert_close(saved(program, tmp_path, way, x), other(x), rtol=1e-4, atol=1e-5)


def test_weights_change_in_place(tmp_path: pathlib.Path) -> None:
    module, x = net(bidirectional=True), example(2, 3)
    program = export(module, x)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.mul_(2).add_(0.1)
    torch.testing.assert_close(saved(program, tmp_path, "save", x), module(x), rtol=1e-4, atol=1e-5)


def test_the_names_tell_the_rows() -> None:
    program = export(net(bidirectional=True), example(2, 3))
    rows = "[0:36,108:144,36:108]"  # ONNX's gates are i, o, f, c
    names = {tensor.name for tensor in program.model_proto.graph.initializer}
    assert f"layer.weight_ih_l0{rows}+layer.weight_ih_l0_reverse{rows}" in names


class Twice(torch.nn.Module):
    """One recurrent network in two calls."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.GRU(40, 40)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(self.layer(x)[0])[0]


def test_shared_parameters_are_stored_once() -> None:
    torch.manual_seed(0)
    module, x = Twice().eval(), example(2, 3)
    program = export(module, x)
    assert has_stored_weights(program)
    assert numbers(program) <= sum(p.numel() for p in module.parameters()) + 2 * 3 * 40
    torch.testing.assert_close(program(x)[0], module(x), rtol=1e-4, atol=1e-5)


class Pair(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a = Net("gru", bidirectional=True)
        self.b = Net("gru", bidirectional=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.a(x) + self.b(x)


def test_modules_that_are_functions_take_joined_weights() -> None:
    torch.manual_seed(0)
    module, x = Pair().eval(), example(2, 3)
    with onnx_native.options(functions=True):
        program = export(module, x)
    onnx.checker.check_model(program.model_proto, full_check=True)
    (function,) = (one for one in program.model_proto.functions if one.name == "Net")
    rows = "[36:72,0:36,72:108]"
    assert f"layer.weight_ih_l0{rows}+layer.weight_ih_l0_reverse{rows}" in function.input
    torch.testing.assert_close(program(x)[0], module(x), rtol=1e-4, atol=1e-5)


class Penalty(torch.nn.Module):
    """A parameter has another use."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.LSTM(40, 40)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(x)[0] * self.layer.weight_ih_l0.sum()


def test_a_parameter_with_another_use_is_stored_once() -> None:
    torch.manual_seed(0)
    module, x = Penalty().eval(), example(2, 3)
    program = export(module, x)
    assert numbers(program) <= sum(p.numel() for p in module.parameters()) + 2 * 3 * 40
    torch.testing.assert_close(program(x)[0], module(x), rtol=1e-4, atol=1e-5)


def test_the_pass_can_be_switched_off() -> None:
    with onnx_native.options(disabled_passes=["joined_weights"]):
        program = export(module := net(), x := example(2, 3))
    assert "Split" in operators(program)
    torch.testing.assert_close(program(x)[0], module(x), rtol=1e-4, atol=1e-5)
