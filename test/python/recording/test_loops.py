"""Native capture of loops that run as often as a size says: rolled, or unrolled with a guard."""

from __future__ import annotations

import copy
from typing import Any

import onnx_native
import pytest
import torch
from models.calling import Calling
from models.recording import DYNAMIC, Function, X, assert_recorded, function_id, reason_of
from torch import nn
from torch.export import Dim

OTHER_BATCH = torch.randn(3, 5, 4, generator=torch.Generator().manual_seed(3))


def over_range(x: torch.Tensor) -> Any:
    state = x[:, 0] * 0
    for t in range(x.shape[1]):
        state = torch.tanh(state + x[:, t])
    return state


def backward(x: torch.Tensor) -> Any:
    return torch.stack([x[:, t] for t in range(x.size(1) - 1, -1, -1)], 1)


def over_steps(x: torch.Tensor) -> Any:
    return [x[:, t : t + 2].sum(1) for t in range(0, x.size(1), 2)]


def over_unbound(x: torch.Tensor) -> Any:
    state = x[:, 0] * 0
    for row in x.unbind(1):
        state = state * 0.5 + row
    return state


def over_rows(x: torch.Tensor) -> Any:
    return sum(row.cumsum(0) for row in x.transpose(0, 1))


def over_pieces(x: torch.Tensor) -> Any:
    return torch.stack([piece.squeeze(1) for piece in x.split(1, 1)], 1)


def filled(x: torch.Tensor) -> Any:
    out = torch.zeros(x.shape[0], x.shape[1], 4)
    for t in range(1, x.size(1)):
        out[:, t] = out[:, t - 1] * 0.5 + x[:, t]
    return out


def twice(x: torch.Tensor) -> Any:
    for t in range(x.shape[1]):
        x = x + t
    return torch.cat([*x.unbind(1), x.mean(1)], -1)


@torch.jit.script
def scripted(x: torch.Tensor) -> torch.Tensor:
    for i in range(x.size(1)):
        x = x + i
    return x


ROLLED: list[Function] = [
    over_range,
    over_unbound,
    over_rows,
    over_pieces,
    filled,
    lambda x: scripted(x),
]
UNROLLED: list[Function] = [backward, twice]
LOOPS = [*ROLLED, *UNROLLED]


@pytest.mark.parametrize("size", ["n", Dim.AUTO, Dim.DYNAMIC], ids=["named", "auto", "dynamic"])
@pytest.mark.parametrize("function", ROLLED, ids=function_id)
def test_rolled(function: Function, size: Any) -> None:
    others = [torch.randn(2, n, 4, generator=torch.Generator().manual_seed(n)) for n in (1, 9)]
    dynamic_shapes = (({0: "batch", 1: size},),)
    program = assert_recorded(Calling(function), dynamic_shapes, (X,), *[(x,) for x in others])
    assert program.export_report["capture"]["rolled"]


@pytest.mark.parametrize("size", ["n", Dim.AUTO], ids=["named", "auto"])
@pytest.mark.parametrize("function", UNROLLED, ids=function_id)
def test_unrolled(function: Function, size: Any) -> None:
    dynamic_shapes = (({0: "batch", 1: size},),)
    with pytest.warns(torch.onnx.errors.OnnxExporterWarning, match="where a loop is unrolled"):
        program = assert_recorded(Calling(function), dynamic_shapes, (X,), (OTHER_BATCH,))
    sizes = program.model_proto.graph.input[0].type.tensor_type.shape.dim
    assert (sizes[0].dim_param, sizes[1].dim_value) == ("batch", 5)
    name = "n" if size == "n" else "s0"
    guards = program.export_report["capture"]["guards"]
    (guard,) = [each for each in guards if each["condition"] == f"{name} == 5"]
    assert guard["source"].startswith("test_loops.py:")
    assert program.export_report["capture"]["dimensions"][name].startswith("dimension 1 of ")


@pytest.mark.parametrize("size", [Dim("n"), Dim("n", max=64), Dim.DYNAMIC], ids=str)
@pytest.mark.parametrize("function", LOOPS, ids=function_id)
def test_a_declared_size_is_not_fixed(function: Function, size: Any) -> None:
    reason = reason_of(Calling(function), (X,), (({1: size},),))
    assert "needs the number" in reason or "number of results depends on the size" in reason


def test_steps_of_several_sizes() -> None:
    program = assert_recorded(
        Calling(over_steps), (DYNAMIC,), (X,), (OTHER_BATCH,), (torch.cat([X, X[:, :1]], 1),)
    )
    (guard,) = program.export_report["capture"]["guards"]
    assert guard["condition"] == "(n + 1)//2 == 3"


class Recurrent(nn.Module):
    """Loops over its input, and writes a buffer in each step."""

    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.GRUCell(4, 4)
        self.register_buffer("steps", torch.zeros(1))

    def forward(self, x: torch.Tensor) -> Any:
        state = x.new_zeros(x.shape[0], 4)
        outputs = []
        for step in x.unbind(1):
            state = self.cell(step, state)
            self.steps += 1
            outputs.append(state)
        return torch.stack(outputs, 1)


def test_state_is_restored_before_the_loop_is_unrolled() -> None:
    module = Recurrent().eval()
    before = copy.deepcopy(module.state_dict())
    with onnx_native.options(capture="native"):
        program = torch.onnx.export(
            module, (X,), dynamo=True, dynamic_shapes=DYNAMIC, verbose=False
        )
    assert program is not None
    assert program.export_report["capture"]["by"] == "native"
    assert all(torch.equal(value, before[name]) for name, value in module.state_dict().items())
    with torch.no_grad():
        torch.testing.assert_close(program(X)[0], module(X))
