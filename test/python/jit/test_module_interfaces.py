"""Modules of a ModuleList or ModuleDict that are selected through an interface."""
# mypy: disable-error-code="assignment, empty-body"

import pytest
import torch
from torch import Tensor, nn

from .running import check


@torch.jit.interface
class Layer(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        pass


class Scaled(nn.Module):
    def __init__(self, offset: int) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.randn(3))
        self.offset = offset

    def forward(self, x: Tensor) -> Tensor:
        return x * self.scale + self.offset


class Projected(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.linear(x)


class Layers(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.list = nn.ModuleList([Scaled(1), Projected(), Scaled(3)])
        self.dict = nn.ModuleDict({"a": Scaled(1), "b": Projected()})


class ByIndex(Layers):
    def forward(self, x: Tensor, index: int, key: str) -> Tensor:
        one: Layer = self.list[index]
        other: Layer = self.dict[key]
        return other.forward(one.forward(x))


class InLoop(Layers):
    def forward(self, x: Tensor) -> Tensor:
        for i in range(2):
            layer: Layer = self.list[2 - i]
            x = layer.forward(x)
        for key in ["b", "a"]:
            named: Layer = self.dict[key]
            x = named.forward(x)
        return x


class ByData(Layers):
    def forward(self, x: Tensor, index: Tensor) -> Tensor:
        layer: Layer = self.list[int(index)]
        return layer.forward(x)


X = torch.randn(2, 3)


@pytest.mark.parametrize(("index", "key"), [(0, "b"), (2, "a")])
def test_constant_index(index: int, key: str):
    check(torch.jit.script(ByIndex().eval()), [(X, index, key)], opsets=(20,))


def test_loop():
    program = check(
        torch.jit.script(InLoop().eval()), [(X,), (torch.randn(5, 3),)], [{0: "n"}], opsets=(20,)
    )
    assert {"list.2.scale", "dict.b.linear.weight"} <= {
        weight.name.removesuffix(".T") for weight in program.model_proto.graph.initializer
    }


def test_index_from_data():
    with pytest.raises(
        torch.onnx.errors.OnnxExporterError, match="an index that the model computes"
    ):
        torch.onnx.export(
            torch.jit.script(ByData().eval()), (X, torch.tensor(1)), dynamo=True, verbose=False
        )
