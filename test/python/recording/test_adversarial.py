"""Programs that try to mislead the recorder: each right at every size, or left to torch.export."""

from __future__ import annotations

from typing import Any

import onnx
import pytest
import torch
from adversarial import PROGRAMS
from adversarial.program import BOTH, Program
from models import running
from models.recording import reason_or_none

SIZES = ((2, 5), (3, 7), (1, 6), (2, 1), (1, 1))  # (batch, n); the first is recorded


def holds(guards: list[dict[str, str]], sizes: dict[str, int]) -> bool:
    """Whether the model is valid for these sizes."""
    return all(eval(guard["condition"], {"max": max, "min": min}, sizes) for guard in guards)


def shapes_of(program: Program, inputs: Any) -> Any:
    """Dynamic batch and n in each tensor with three dimensions."""
    if program.shapes is not None:
        return program.shapes
    shapes = torch.utils._pytree.tree_map(
        lambda leaf: dict(BOTH) if isinstance(leaf, torch.Tensor) else None, inputs
    )
    forward = program.module().forward
    return (shapes,) if forward.__code__.co_flags & 0x04 else shapes  # *args


def check(program: Program, shapes: Any) -> str:
    reason = reason_or_none(program.module(), program.inputs(*SIZES[0]), shapes)
    if reason is not None:
        assert reason
        return f"aside: {reason}"
    exported = torch.onnx.export(
        program.module(),
        program.inputs(*SIZES[0]),
        dynamo=True,
        dynamic_shapes=shapes,
        verbose=False,
    )
    assert exported is not None
    onnx.checker.check_model(exported.model_proto, full_check=True)
    report = exported.export_report["capture"]  # type: ignore[attr-defined]
    assert report["by"] == "native", report
    for batch, n in SIZES if shapes else SIZES[:1]:
        if not holds(report["guards"], {"batch": batch, "n": n, "m": 3}):
            assert (batch, n) != SIZES[0]
            continue
        with torch.no_grad():
            results = program.module()(*program.inputs(batch, n))
        leaves = torch.utils._pytree.tree_leaves(results)
        expected = [torch.as_tensor(leaf) for leaf in leaves if leaf is not None]
        got = exported(*program.inputs(batch, n))
        if program.random:
            assert [(t.dtype, t.shape) for t in got] == [(t.dtype, t.shape) for t in expected]
        else:
            running.assert_same(got, expected)
    return "right"


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("dynamic", [True, False], ids=["dynamic", "static"])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.name)
def test_program(program: Program, dynamic: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONNX_NATIVE_CAPTURE", "auto")
    shapes = shapes_of(program, program.inputs(*SIZES[0])) if dynamic else None
    found = check(program, shapes)
    if dynamic and not program.aside:
        assert found == "right", found


def test_there_are_many() -> None:
    names = [program.name for program in PROGRAMS]
    assert len(names) == len(set(names))
    assert len(names) >= 80
