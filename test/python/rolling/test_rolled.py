"""Loops over a dynamic size become scans that are right at every length."""

from __future__ import annotations

from typing import Any

import onnx_native
import pytest
import torch
from models.recording import DYNAMIC, assert_equal_to_eager, assert_native, exported
from onnx_native.recording import _capture, _recorder
from rolling import loops


def example(n: int, batch: int = 2) -> tuple[torch.Tensor]:
    return (torch.randn(batch, n, 4, generator=torch.Generator().manual_seed(n)),)


def rolled(function: loops.Function, n: int = 4) -> tuple[Any, loops.Loop]:
    module = loops.Loop(function).eval()
    return exported(module, example(n), DYNAMIC), module


@pytest.mark.parametrize("function", loops.ROLLED, ids=lambda each: each.__name__)
def test_right_at_every_length(function: loops.Function) -> None:
    program, module = rolled(function)
    assert_native(program)
    assert program.export_report["capture"]["rolled"], program.export_report["capture"]["attempts"]
    (size,) = {
        value.dim_param
        for value in program.model_proto.graph.input[0].type.tensor_type.shape.dim[1:2]
    }
    assert size == "n"
    lengths = (1, 2, 3, 5, 40) if function not in (loops.two_back, loops.viterbi) else (2, 3, 5, 40)
    assert_equal_to_eager(program, module, *map(example, lengths), example(7, batch=3))


@pytest.mark.parametrize("function", loops.SPECIAL, ids=lambda each: each.__name__)
def test_never_wrong(function: loops.Function) -> None:
    """The model is static, has a guard, or is right, where the program does something else."""
    module = loops.Loop(function).eval()
    try:
        program = exported(module, example(4), DYNAMIC)
    except torch.onnx.errors.OnnxExporterError:
        return
    if not program.model_proto.graph.input[0].type.tensor_type.shape.dim[1].dim_param:
        return  # it is static
    conditions = [each["condition"] for each in program.export_report["capture"]["guards"]]
    for n in (2, 5, 9, 29, 35, 64):
        if all(eval(each, {"n": n, "batch": 2}) for each in conditions):
            assert_equal_to_eager(program, module, example(n))


def test_report() -> None:
    program, _ = rolled(loops.bidirectional)
    found = program.export_report["capture"]["rolled"]
    assert [each["steps"] for each in found] == ["n", "n"]
    assert all(line.startswith("loops.py:") for each in found for line in each["source"])


def test_nodes_of_a_body_have_the_program_s_lines() -> None:
    with onnx_native.options(disabled_passes=("recurrences",)):
        program, _ = rolled(loops.gru)
    (scan,) = (node for node in program.model_proto.graph.node if node.op_type == "Scan")
    (body,) = (each.g for each in scan.attribute if each.name == "body")
    lines = [
        entry.value
        for node in body.node
        for entry in node.metadata_props
        if entry.key == "pkg.torch.onnx.stack_trace"
    ]
    assert lines
    assert all("loops.py" in line for line in lines)


def test_the_length_of_the_example_does_not_matter() -> None:
    programs = [rolled(loops.lstm, n)[0] for n in (1, 2, 16, 300)]
    assert len({program.model_proto.SerializeToString() for program in programs}) == 1


def test_compared_with_eager() -> None:
    program, _ = rolled(loops.lstm)
    assert onnx_native.compare(program, sizes={"n": 9}).first is None


def test_a_declared_size() -> None:
    module = loops.Loop(loops.lstm).eval()
    n = torch.export.Dim("n", min=1, max=50)
    program = exported(module, example(4), ({1: n},))
    assert program.export_report["capture"]["rolled"]
    assert_equal_to_eager(program, module, example(1), example(50))


def test_small_ranges_are_not_rolled() -> None:
    module = loops.Loop(loops.lstm).eval()
    with pytest.raises(torch.onnx.errors.OnnxExporterError):
        exported(module, example(4), ({1: torch.export.Dim("n", min=3, max=4)},))


@pytest.mark.parametrize(
    ("function", "guard"),
    [
        (loops.enumerated, "n < 31"),
        (loops.branches_on_the_size, "n <= 30"),
        (loops.branches_on_len, "n <= 30"),
        (loops.branches_on_a_result, "n <= 30"),
        (loops.pops, "n <= 31"),
        (loops.first_three, "n >= 3"),
    ],
    ids=lambda each: getattr(each, "__name__", ""),
)
def test_guards(function: loops.Function, guard: str) -> None:
    program, _ = rolled(function)
    assert program.export_report["capture"]["rolled"]
    assert guard in [each["condition"] for each in program.export_report["capture"]["guards"]]


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (loops.counts_itself, "a counter of its own (loops.py:"),
        (loops.gains, "a table of numbers (loops.py:"),
        (loops.decimal, "the program uses the number of a step or the length otherwise"),
        (loops.keys, "the program uses the number of a step or the length otherwise"),
        (loops.nested, "the recordings differ by more than repetitions"),
        (loops.shape_changes, "changes the type of a loop-carried tensor"),
    ],
    ids=lambda each: getattr(each, "__name__", ""),
)
def test_the_reason_is_said(function: loops.Function, reason: str) -> None:
    program, _ = rolled(function)
    attempts = program.export_report["capture"]["attempts"]
    (text,) = (each["reason"] for each in attempts if each["route"] == "native, rolled")
    assert text.startswith("the loops over n are not rolled: ")
    assert reason in text


def test_each_step_draws() -> None:
    def function(m: loops.Loop, x: torch.Tensor) -> torch.Tensor:
        out = []
        for t in range(x.size(1)):
            out.append(x[:, t] * 0 + torch.rand(4))
        return torch.stack(out, 1)

    program, _ = rolled(function)
    assert program.export_report["capture"]["rolled"]
    (found,) = program(*example(50, batch=1))
    assert found.unique().numel() == found.numel()


class Buffered(torch.nn.Module):
    """Keeps its state in a buffer, which it replaces."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("h", torch.zeros(2, 4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.h = torch.zeros(x.shape[0], 4)
        for t in range(x.size(1)):
            self.h = torch.tanh(self.h + x[:, t])
        return self.h


def test_replaced_buffers_are_not_rolled() -> None:
    program = exported(Buffered().eval(), example(4), DYNAMIC)
    assert not program.export_report["capture"]["rolled"]


def test_loops_that_are_not_rolled_may_be_unrolled() -> None:
    program, _ = rolled(loops.nested)
    routes = [each["route"] for each in program.export_report["capture"]["attempts"]]
    assert routes[:3] == ["native", "native, rolled", "native, unrolled"]


def test_a_capture_that_does_not_unroll() -> None:
    from onnx_native.request import _request

    module = loops.Loop(loops.nested)
    inputs = _request.Request(module, example(4), None, DYNAMIC, None, None, None).inputs()
    with pytest.raises(_recorder.StepAsideError, match="a loop needs the number n"):
        _capture.capture(module, inputs, unrolls=False)
