"""Scripted and traced modules without control flow of their own."""

import onnx_native
import pytest
import torch
from models.torchvision_kernels import load_torchvision_kernels
from torch import nn

from .running import check

C = onnx_native._C


def test_reads_as_the_fx_reader_does():
    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Dropout(), nn.Linear(4, 2)).eval()
    program = torch.export.export(
        model, (torch.ones(2, 3),), dynamic_shapes=[{0: torch.export.Dim("batch")}]
    )
    sizes = C.ScriptInput.tensor("input", torch.float32, ["batch", 3])
    text = C.read_script(C.ScriptSource(torch.jit.script(model), [sizes]))
    symbol = str(next(iter(program.range_constraints)))
    assert text == C.read(program, {symbol: "batch"})


def test_scripted_mlp():
    model = torch.jit.script(nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2)).eval())
    program = check(model, [(torch.randn(2, 3),), (torch.randn(5, 3),)], [{0: "batch"}])
    assert [v.name for v in program.model_proto.graph.input] == ["input"]
    names = {weight.name for weight in program.model_proto.graph.initializer}
    assert names == set(model.state_dict())


@pytest.mark.parametrize("way", [torch.jit.script, lambda m: torch.jit.trace(m, torch.ones(2, 3))])
def test_frozen_module(way):
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.ReLU()).eval()
    frozen = torch.jit.freeze(way(model))
    check(frozen, [(torch.randn(2, 3),), (torch.randn(5, 3),)], [{0: "batch"}])


def test_traced_resnet():
    load_torchvision_kernels()
    import torchvision

    model = torchvision.models.resnet18().eval()
    images = [(torch.randn(2, 3, 64, 64),), (torch.randn(1, 3, 96, 64),)]
    traced = torch.jit.trace(model, images[0])
    check(traced, images, [{0: "batch", 2: "height"}])


class Sizes(nn.Module):
    """A size that is an expression of an unbacked symbol."""

    def forward(self, x: torch.Tensor):
        counts = torch.bincount(x, minlength=3)
        return counts, torch.zeros(counts.size(0) * 2, x.size(0)), counts.size(0) > 5


def test_sizes_that_an_operator_computes():
    inputs = [(torch.tensor([0, 1]),), (torch.tensor([7, 7, 2]),), (torch.tensor([4]),)]
    check(torch.jit.script(Sizes()), inputs, [{0: "n"}])


class Shorter(nn.Module):
    def forward(self, x: torch.Tensor):
        return torch.zeros(x.size(0) - 1) + x[1], torch.ones(x.size(0) // 2)


@pytest.mark.parametrize("multiple", [1, 2])
def test_a_symbol_of_which_the_input_has_only_a_linear_expression(multiple):
    n = torch.export.Dim("n", min=2, max=64)
    inputs = [(torch.randn(multiple * size + 1),) for size in (3, 6, 7)]
    check(torch.jit.script(Shorter()), inputs, [{0: multiple * n + 1}])


class Settings(nn.Module):
    """Buffers that are read as numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("scale", torch.tensor(0.5))
        self.register_buffer("enabled", torch.tensor(True))
        self.register_buffer("calls", torch.tensor(1.5))

    def forward(self, x: torch.Tensor):
        self.calls += 1
        if bool(self.enabled):
            x = nn.functional.elu(x, alpha=float(self.scale))
        return x * int(self.scale * 5) + self.calls.item()


def test_constants_that_are_read_as_numbers():
    program = check(
        torch.jit.script(Settings()), [(torch.randn(3),), (torch.randn(5),)], [{0: "n"}]
    )
    nodes = [node.op_type for node in program.model_proto.graph.node]
    assert "Elu" in nodes
    assert "If" not in nodes
