"""Loops over the pieces of a dynamic size become scans over as many steps as there are pieces."""

from __future__ import annotations

import pytest
import torch
from models.recording import DYNAMIC, assert_equal_to_eager, assert_native, exported
from rolling import loops_over_pieces as loops
from rolling.loops import Function, Loop


def example(n: int, batch: int = 2) -> tuple[torch.Tensor]:
    return (torch.randn(batch, n, 4, generator=torch.Generator().manual_seed(n)),)


@pytest.mark.parametrize("function", loops.ROLLED, ids=lambda each: each.__name__)
@pytest.mark.parametrize("n", [3, 5, 8])
def test_right_at_every_length(function: Function, n: int) -> None:
    module = Loop(function).eval()
    program = exported(module, example(n), DYNAMIC)
    assert_native(program)
    capture = program.export_report["capture"]
    assert capture["rolled"]
    assert capture["unrolled"] == []
    assert program.model_proto.graph.input[0].type.tensor_type.shape.dim[1].dim_param == "n"
    assert_equal_to_eager(program, module, *map(example, (1, 2, 3, 4, 5, 8, 12, 31, 64, 90)))


@pytest.mark.parametrize("function", loops.SPECIAL, ids=lambda each: each.__name__)
@pytest.mark.parametrize("n", [7, 8])
def test_never_wrong(function: Function, n: int) -> None:
    module = Loop(function).eval()
    program = exported(module, example(n), DYNAMIC)
    conditions = [each["condition"] for each in program.export_report["capture"]["guards"]]
    for length in (1, 2, 3, 4, 5, 7, 8, 9, 12, 31, 64, 81, 90, 128):
        if all(eval(each, {"n": length, "batch": 2}) for each in conditions):
            assert_equal_to_eager(program, module, example(length))


def test_an_uneven_last_piece() -> None:
    def local(m: Loop, x: torch.Tensor) -> torch.Tensor:
        n = x.size(1)
        ends = [(i, min(n, i + 4)) for i in range(0, n, 4)]
        return torch.cat([m.linear(x[:, i:end]).cumsum(1) for i, end in ends], 1)

    module = Loop(local).eval()
    program = exported(module, example(11), DYNAMIC)
    capture = program.export_report["capture"]
    assert capture["rolled"]
    assert capture["guards"] == []
    assert_equal_to_eager(program, module, *map(example, (1, 3, 4, 5, 8, 9, 31, 64)))


def test_one_piece_as_long_as_the_size() -> None:
    def whole(m: Loop, x: torch.Tensor) -> torch.Tensor:
        n = x.size(1)
        return torch.cat([m.linear(x[:, i : i + n]) for i in range(0, n, n)], 1)

    module = Loop(whole).eval()
    program = exported(module, example(5), DYNAMIC)
    assert_native(program)
    assert program.export_report["capture"]["guards"] == []
    assert_equal_to_eager(program, module, *map(example, (1, 2, 9)))


def test_a_loop_that_is_not_rolled_has_a_guard() -> None:
    def function(m: Loop, x: torch.Tensor) -> torch.Tensor:
        total, steps = x[:, 0], 0
        for i in range(0, x.size(1), 4):
            steps = steps + 1
            total = total + x[:, i] if steps < 3 else total * 0.5
        return total

    program = exported(Loop(function).eval(), example(8), DYNAMIC)
    assert program.export_report["capture"]["unrolled"] == ["(n + 3)//4 == 2"]
    routes = [each["route"] for each in program.export_report["capture"]["attempts"]]
    assert routes == ["native", "native, rolled"]
