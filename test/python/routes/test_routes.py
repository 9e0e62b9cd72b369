"""The routes that an export takes, as export_report["capture"]["attempts"] lists them."""

from typing import Any

import pytest
import torch
from torch import nn

DYNAMIC = ({0: "n"},)


class Plain(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.relu()


class Unrolled(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        total = torch.zeros(3)
        for i in range(x.shape[0]):
            total = total + x[i]
        return total


class Branch(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.sum() > 0:
            return x + 1
        return x - 1


class BranchWithoutScript(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        steps = {bool: lambda y: y + 1}  # TorchScript has no lambda
        return steps[bool](x) if x.sum() > 0 else x - 1


def attempts(module: nn.Module, **kwargs: Any) -> list[tuple[str, str | None]]:
    x = torch.ones(2, 3)
    program = torch.onnx.export(module.eval(), (x,), dynamo=True, verbose=False, **kwargs)
    assert program is not None
    torch.testing.assert_close(program(x)[0], module(x))
    found = program.export_report["capture"]["attempts"]
    assert all(each["seconds"] >= 0 for each in found)
    assert all((each["kind"] is None) == (each["reason"] is None) for each in found)
    return [(each["route"], each["kind"]) for each in found]


@pytest.mark.filterwarnings("ignore::torch.onnx.errors.OnnxExporterWarning")
def test_each_program_takes_its_route() -> None:
    assert attempts(Plain()) == [("native", None)]
    assert attempts(Unrolled(), dynamic_shapes=DYNAMIC) == [
        ("native", "unrolled loop"),
        ("native, rolled", None),
    ]
    assert attempts(Branch()) == [("native", "control flow"), ("TorchScript", None)]
    assert attempts(BranchWithoutScript()) == [
        ("native", "control flow"),
        ("TorchScript", "other"),
        ("native, both ways", None),
    ]
    script = torch.jit.script(Plain())
    assert attempts(script) == [("TorchScript", None)]


def test_a_captured_program_takes_one_route() -> None:
    x = torch.ones(2, 3)
    captured = torch.export.export(Plain(), (x,))
    program = torch.onnx.export(captured, (x,), dynamo=True, verbose=False)
    assert program is not None
    (attempt,) = program.export_report["capture"]["attempts"]
    assert (attempt["route"], attempt["kind"]) == ("torch.export", None)
