"""Loops over two dynamic sizes become scans, also loops in loops."""

from __future__ import annotations

import pytest
import torch
from models.recording import assert_equal_to_eager, assert_native, exported
from rolling import loops_over_two_sizes as loops

BATCH = torch.export.Dim("batch")
SHAPES = ({0: BATCH, 1: "n"}, {0: BATCH, 1: "m"})


def example(n: int, m: int, batch: int = 2) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(n)
    return (
        torch.randn(batch, n, 4, generator=generator),
        torch.randn(batch, m, 4, generator=generator),
    )


@pytest.mark.parametrize("function", loops.ROLLED, ids=lambda each: each.__name__)
def test_right_at_all_sizes(function: loops.Function) -> None:
    module = loops.Loops(function).eval()
    program = exported(module, example(4, 5), SHAPES)
    assert_native(program)
    found = program.export_report["capture"]["rolled"]
    assert {each["steps"] for each in found} == {"n", "m"}
    x, y = program.model_proto.graph.input
    assert x.type.tensor_type.shape.dim[1].dim_param == "n"
    assert y.type.tensor_type.shape.dim[1].dim_param == "m"
    sizes = [(1, 1), (1, 4), (5, 1), (2, 3), (3, 2), (7, 30), (30, 7)]
    assert_equal_to_eager(program, module, *(example(*each) for each in sizes), example(3, 4, 5))


@pytest.mark.parametrize("function", loops.SPECIAL, ids=lambda each: each.__name__)
def test_never_wrong(function: loops.Function) -> None:
    module = loops.Loops(function).eval()
    try:
        program = exported(module, example(4, 5), SHAPES)
    except torch.onnx.errors.OnnxExporterError:
        return
    x, y = program.model_proto.graph.input
    dims = [each.type.tensor_type.shape.dim[1] for each in (x, y)]
    conditions = [each["condition"] for each in program.export_report["capture"]["guards"]]
    for n, m in [(4, 5), (1, 1), (2, 3), (5, 9), (24, 2), (27, 3), (3, 27), (23, 23), (2, 40)]:
        is_allowed = all(d.dim_param or d.dim_value == s for d, s in zip(dims, (n, m), strict=True))
        if is_allowed and all(eval(each, {"n": n, "m": m, "batch": 2}) for each in conditions):
            assert_equal_to_eager(program, module, example(n, m))
