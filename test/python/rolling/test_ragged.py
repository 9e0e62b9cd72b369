"""Loops whose steps return pieces of different lengths, which depend on data."""

from __future__ import annotations

import pytest
import torch
from models.recording import assert_equal_to_eager, assert_native, exported
from rolling import loops_over_ragged_rows as loops
from rolling.loops_over_ragged_rows import Function, RaggedLoop

Inputs = tuple[torch.Tensor, torch.Tensor]


def rows(n: int, longest: int = 8) -> Inputs:
    generator = torch.Generator().manual_seed(n)
    lengths = torch.randint(1, longest + 1, (n,), generator=generator)
    return torch.randn(n, 9, 4, generator=generator), lengths


def packed(n: int) -> Inputs:
    x = torch.randn(36, 4, generator=torch.Generator().manual_seed(n))
    return x, torch.tensor([36 - 2 * (n - 1)] + [2] * (n - 1))


@pytest.mark.parametrize("function", loops.ROWS, ids=lambda each: each.__name__)
def test_rows_of_a_batch(function: Function) -> None:
    module = RaggedLoop(function).eval()
    program = exported(module, rows(3), ({0: "n"}, {0: "n"}))
    assert_native(program)
    assert program.export_report["capture"]["rolled"]
    assert program.export_report["capture"]["guards"] == []
    assert_equal_to_eager(program, module, *map(rows, (1, 2, 3, 4, 7, 12, 33)))
    assert_equal_to_eager(program, module, rows(5, longest=1))


@pytest.mark.parametrize("function", loops.PACKED, ids=lambda each: each.__name__)
def test_pieces_of_a_packed_batch(function: Function) -> None:
    module = RaggedLoop(function).eval()
    program = exported(module, packed(3), (None, {0: "n"}))
    assert_native(program)
    assert program.export_report["capture"]["rolled"]
    assert_equal_to_eager(program, module, *map(packed, (1, 2, 3, 4, 7, 12)))


@pytest.mark.parametrize("function", loops.SPECIAL, ids=lambda each: each.__name__)
def test_never_wrong(function: Function) -> None:
    module = RaggedLoop(function).eval()

    def example(n: int) -> Inputs:
        x, lengths = rows(n)
        return x, lengths.new_full((n,), 3) if function is not loops.from_the_last else lengths

    program = exported(module, example(3), ({0: "n"}, {0: "n"}))
    sizes = [dim.dim_param for dim in program.model_proto.graph.input[0].type.tensor_type.shape.dim]
    lengths = (1, 2, 3, 4, 5, 6, 7, 12) if sizes[0] == "n" else (3,)
    assert_equal_to_eager(program, module, *map(example, lengths))


def test_rows_with_nothing_in_them() -> None:
    module = RaggedLoop(loops.two_loops).eval()
    program = exported(module, rows(3), ({0: "n"}, {0: "n"}))
    x, _ = rows(4)
    assert_equal_to_eager(program, module, (x, torch.tensor([0, 2, 0, 9])))


def test_the_length_of_the_example_does_not_matter() -> None:
    module = RaggedLoop(loops.two_uses).eval()
    models = [
        exported(module, rows(n), ({0: "n"}, {0: "n"})).model_proto.SerializeToString()
        for n in (3, 40)
    ]
    assert len(models[0]) == len(models[1])
