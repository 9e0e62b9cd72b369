"""Loops that add rows to a tensor in each step become Loops of any length."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from models.recording import DYNAMIC, assert_equal_to_eager, assert_native, exported
from rolling import loops_that_grow as loops
from rolling.loops_that_grow import Growing


def example(n: int, batch: int = 2) -> tuple[torch.Tensor]:
    return (torch.randn(batch, n, 4, generator=torch.Generator().manual_seed(n)),)


@pytest.mark.parametrize("function", loops.ROLLED, ids=lambda each: each.__name__)
def test_right_at_every_length(function: Any) -> None:
    module = Growing(function).eval()
    program = exported(module, example(3), DYNAMIC)
    assert_native(program)
    assert program.export_report["capture"]["rolled"]
    assert program.export_report["capture"]["guards"] == []
    assert_equal_to_eager(program, module, *map(example, (1, 2, 3, 4, 7, 12, 40)), example(4, 3))


@pytest.mark.parametrize("function", loops.SPECIAL, ids=lambda each: each.__name__)
def test_never_wrong(function: Any) -> None:
    module = Growing(function).eval()
    program = exported(module, example(3), DYNAMIC)
    conditions = [each["condition"] for each in program.export_report["capture"]["guards"]]
    for n in (1, 2, 3, 4, 5, 6, 7, 8, 12):
        if all(eval(each, {"n": n, "batch": 2}) for each in conditions):
            assert_equal_to_eager(program, module, example(n))


def test_the_size_of_what_grew_is_known() -> None:
    program = exported(Growing(loops.two_rows).eval(), example(3), DYNAMIC)
    (output,) = program.model_proto.graph.output
    assert output.type.tensor_type.shape.dim[1].dim_param == "2*n + 1"
