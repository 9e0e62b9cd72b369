"""Integer inputs of programs that torch.export captures: they may be negative, unlike sizes.

torch.export records that such an integer is at least 0, but does not check it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnx_native
import pytest
import torch
from captured.test_integers_from_data import NUMBER_OF_TENSOR, SHARED, VALUES, Model, session, x_of
from models.running import assert_same

C = onnx_native._C

SHAPES = ({0: torch.export.Dim.DYNAMIC}, torch.export.Dim.DYNAMIC)


class Number:
    """An integer in place of the tensor that the shared programs read theirs from."""

    def __init__(self, number: int) -> None:
        self.number = number

    def item(self) -> int:
        return self.number


class OfInteger(torch.nn.Module):
    """A program that evaluates an expression of its integer input `n`."""

    def __init__(self, expression: str) -> None:
        super().__init__()
        self.model = Model(expression)

    def forward(self, x: torch.Tensor, n: int) -> Any:
        return self.model.program(x, Number(n))


def values(model: OfInteger) -> list[tuple[torch.Tensor, int]]:
    """The inputs that eager accepts."""
    accepted = []
    for n in (5, *VALUES):
        pair = (x_of(6 - n % 3), n)
        try:
            model(*pair)
        except (RuntimeError, IndexError):
            continue
        accepted.append(pair)
    assert len(accepted) > 2
    return accepted


@pytest.mark.parametrize("name", SHARED)
def test_captured(name: str) -> None:
    model = OfInteger(SHARED[name])
    with onnx_native.options(capture="torch.export"):
        program = torch.onnx.export(
            model, (x_of(5), 5), dynamo=True, dynamic_shapes=SHAPES, verbose=False
        )
    assert program is not None
    onnx.checker.check_model(program.model_proto, full_check=True)
    running = session(program.model_proto)
    names = [value.name for value in running.get_inputs()]
    for x, n in values(model):
        got = running.run(None, dict(zip(names, (x.numpy(), np.array(n)), strict=True)))
        assert_same([torch.from_numpy(got[0])], [torch.as_tensor(model(x, n))])


@pytest.mark.parametrize("name", NUMBER_OF_TENSOR)
def test_ranges_have_no_bounds(name: str, tmp_path: Any) -> None:
    program = torch.export.export(OfInteger(SHARED[name]), (x_of(5), 5), dynamic_shapes=SHAPES)
    text = C.read(program)
    assert ": [-inf, inf]" in text.splitlines()[0]
    if "abs" in SHARED[name]:
        return  # torch.export.save does not know abs() of integers
    torch.export.save(program, tmp_path / "program.pt2")
    assert C.read_pt2(str(tmp_path / "program.pt2")) == text
