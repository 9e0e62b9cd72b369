"""Lists, tuples and dicts that are modified in place, with and without aliases."""

import pytest
import torch
from torch import Tensor, nn

from .running import check


class MadeInBranch(nn.Module):
    def forward(self, x: Tensor):
        if bool(x.sum() > 0):
            ys = [x]
            ys.append(x + 1)
            ys[0] = x * 7
        else:
            ys = [x * 2, x * 3]
        return torch.stack(ys)


class NamedInBranch(nn.Module):
    def forward(self, x: Tensor):
        xs = [x, x + 5]
        if bool(x.sum() > 0):
            xs[0] = x + 1
            ys = xs
        else:
            ys = [x * 3, x * 2]
        return torch.stack(ys), torch.stack(xs)


class DictInBranch(nn.Module):
    def forward(self, x: Tensor):
        first = {"a": x}
        if bool(x.sum() > 0):
            first["a"] = x + 1
            second = first
        else:
            second = {"a": x * 4}
        return second["a"], first["a"]


class InsideTuple(nn.Module):
    def forward(self, x: Tensor):
        xs = [x]
        if bool(x.sum() > 0):
            xs.append(x + 1)
            pair = (xs, x)
        else:
            pair = (xs, x * 2)
        xs.append(x * 4)
        return torch.stack(pair[0]), pair[1], len(xs)


class NamedInLoop(nn.Module):
    def forward(self, x: Tensor):
        xs = [x]
        ys = [x * 9]
        for i in range(x.size(0)):
            xs.append(x + i)
            ys = xs
        return torch.stack(ys), torch.stack(xs)


class LastThree(nn.Module):
    def forward(self, x: Tensor):
        last = [x[0]]
        for i in range(x.size(0)):
            last.append(x[i])
            if len(last) > 3:
                last = last[1:]
        return torch.stack(last)


class TupleInLoop(nn.Module):
    def forward(self, x: Tensor):
        state = (x[0], [x[0]])
        for i in range(x.size(0)):
            total, parts = state
            parts[0] = parts[0] + x[i]
            state = (total * 2, parts)
        return state[0], state[1][0]


class Exchanged(nn.Module):
    def forward(self, x: Tensor):
        xs = [x[0], x[0]]
        ys = [x[0] * 5, x[0]]
        for i in range(x.size(0)):
            xs[0] = xs[0] + x[i]
            ys = xs if bool(x[i].sum() > 0) else [x[i], x[i]]
            xs = [xs[1], xs[0]]
        return torch.stack(ys), torch.stack(xs)


class MadeInStep(nn.Module):
    def forward(self, x: Tensor):
        for i in range(x.size(0)):
            parts: list[Tensor] = []
            if bool(x[i].sum() > 0):
                parts.append(x[i])
                parts.append(x[i] + 1)
            else:
                parts.append(x[i] - 1)
                parts.append(x[i])
            x = x + torch.stack(parts).sum(0)
        return x


class Attribute(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.numbers: list[int] = [1, 2]

    def forward(self, x: Tensor):
        if bool(x.sum() > 0):
            self.numbers[0] = 5
        for i in range(x.size(0)):
            if bool(x[i].sum() < 0):
                self.numbers[1] += i
        return x * self.numbers[0] + self.numbers[1]


MODULES = [
    *(MadeInBranch, NamedInBranch, DictInBranch, InsideTuple, NamedInLoop, LastThree, TupleInLoop),
    *(Exchanged, MadeInStep, Attribute),
]


@pytest.mark.parametrize("module", MODULES)
def test_module(module: type[nn.Module]) -> None:
    torch.manual_seed(0)
    inputs = [(torch.randn(5, 2),), (torch.rand(8, 2),), (-torch.rand(3, 2),)]
    check(torch.jit.script(module().eval()), inputs, [{0: "batch"}])


class OneOrTheOther(nn.Module):
    def forward(self, x: Tensor):
        first = [x[0], x[1]]
        second = first
        if bool(x.sum() > 0):
            second = [x[0] * 2, x[1]]
        second[0] = second[0] + 1
        return first[0], second[0]


def test_changes_of_one_list_or_another_are_an_error() -> None:
    module = torch.jit.script(OneOrTheOther())
    with pytest.raises(torch.onnx.OnnxExporterError, match="may be aliased"):
        torch.onnx.export(module, (torch.randn(5, 2),), dynamo=True, verbose=False)
