"""Programs that decide by a dynamic size: a model of both ways, or of one for both."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import onnx
import onnx_native
import pytest
import torch
from models.calling import Calling
from models.recording import (
    DYNAMIC,
    X,
    assert_equal_to_eager,
    assert_native,
    exported,
)
from torch import nn
from torch.nn import functional as F

LENGTHS = (1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 16, 33)


def of_length(n: int, batch: int = 2) -> tuple[torch.Tensor]:
    return (torch.randn(batch, n, 4, generator=torch.Generator().manual_seed(n)),)


def count_of(program: Any, op: str, graph: Any = None) -> int:
    """How many nodes of an operator a model has, in the bodies of others too."""
    nodes = (program.model_proto.graph if graph is None else graph).node
    return sum(node.op_type == op for node in nodes) + sum(
        count_of(program, op, attribute.g)
        for node in nodes
        for attribute in node.attribute
        if attribute.type == onnx.AttributeProto.GRAPH
    )


def conditions(program: Any) -> list[str]:
    return [guard["condition"] for guard in program.export_report["capture"]["guards"]]


@dataclasses.dataclass(frozen=True)
class Case:
    """A program.

    Attributes:
        function: The program, of a tensor [batch, n, 4].
        conds: How many conditions its model has.
        examples: The lengths of the examples, with each of which it is exported.
        guards: The conditions that stay.
    """

    function: Any
    conds: int
    examples: Sequence[int] = (5,)
    guards: Sequence[str] = ()


def special(x: torch.Tensor) -> torch.Tensor:
    y = x * 2 if x.shape[1] == 5 else x + 1
    return y.relu()


def limited(x: torch.Tensor) -> torch.Tensor:
    if x.shape[1] > 8:
        x = x[:, :8]
    return x.softmax(1)


def padded(x: torch.Tensor) -> torch.Tensor:
    n = x.shape[1]
    if n % 4:
        x = F.pad(x, (0, 0, 0, 4 - n % 4))
    return x.unflatten(1, (-1, 4)).softmax(2).flatten(1, 2)[:, :n]


def in_steps(x: torch.Tensor) -> torch.Tensor:
    n = x.shape[1]
    if n > 3:
        x = x * 2
    x = x + 1
    if n > 6:
        x = x.cumsum(1)
    if n == 9:
        x = -x
    return x.exp()


def in_layers(x: torch.Tensor) -> torch.Tensor:
    for _ in range(3):
        x = x.sin() if x.shape[1] < 6 else x.cos()
        x = x @ torch.ones(4, 4)
    return x


def squeezed(x: torch.Tensor) -> torch.Tensor:
    return x.squeeze(1) if x.shape[1] == 1 else x.mean(1)


def by_a_float(x: torch.Tensor) -> torch.Tensor:
    return x * 2 if x.shape[1] * 0.5 > 3 else x - 1


def number_of_the_way(x: torch.Tensor) -> torch.Tensor:
    """Needs the size as a number, which it has on one way only."""
    if x.shape[1] == 5:
        return torch.stack([x[:, i] * i for i in range(x.shape[1])], 1)
    return x * 3


def shared_values(x: torch.Tensor) -> torch.Tensor:
    """What one way computes first, it uses again after the other branch."""
    n = x.shape[1]
    scale = x.sum(1, keepdim=True) if n > 5 else x.mean(1, keepdim=True)
    x = x + 1
    return x * scale if n > 5 else x - scale


def results_of_other_sizes(x: torch.Tensor) -> torch.Tensor:
    return x.repeat(1, 2, 1) if x.shape[1] == 5 else x[:, :2]


def with_data(x: torch.Tensor) -> Any:
    """Sizes that depend on data on both sides of the decision."""
    chosen = x[x > 0]
    y = chosen * 2 if x.shape[1] > 5 else chosen + 1
    return y, x[x < 1]


def masked(x: torch.Tensor) -> torch.Tensor:
    """One row needs no mask; the mask of one row changes nothing that the proof could see."""
    scores = x @ x.mT
    if x.shape[1] != 1:
        scores = scores.masked_fill(torch.ones_like(scores).triu(1).bool(), -torch.inf)
    return scores.softmax(-1) @ x


def whole_views(x: torch.Tensor) -> torch.Tensor:
    """At one row, the other way is the same but for views of everything and copies."""
    n = x.shape[1]
    y = x[:, :1].contiguous() if n == 1 else x[:, :n].clone()
    return (y.expand(-1, n, -1) if n != 1 else y) * torch.arange(n)[:, None]


def raises(x: torch.Tensor) -> torch.Tensor:
    if x.shape[1] > 40:
        raise ValueError("too long")
    return x * 2


CASES = [
    Case(special, 1, (5, 6)),
    Case(limited, 1, (5, 12)),
    Case(padded, 1, (8, 7)),
    Case(in_steps, 4, (2, 5)),  # n == 9 is asked on two ways
    Case(in_layers, 3, (5, 6)),
    Case(squeezed, 1, (1, 5)),
    Case(by_a_float, 1, (5, 8)),
    Case(number_of_the_way, 1, (5, 7)),
    Case(shared_values, 1, (5, 6)),
    Case(results_of_other_sizes, 1, (5, 7)),
    Case(with_data, 1, (5, 7)),
    Case(masked, 1, (1, 5)),
    Case(whole_views, 0, (1, 5)),
    Case(raises, 0, (5,), ("n <= 40",)),
]


@pytest.mark.parametrize(
    ("case", "example"),
    [(case, example) for case in CASES for example in case.examples],
    ids=lambda each: each.function.__name__ if isinstance(each, Case) else str(each),
)
def test_both_ways(case: Case, example: int) -> None:
    module = Calling(case.function)
    program = exported(module, of_length(example), (DYNAMIC,))
    assert_native(program)
    assert conditions(program) == list(case.guards)
    assert count_of(program, "If") == case.conds
    assert_equal_to_eager(program, module, *map(of_length, LENGTHS), of_length(5, 1))


class Positions(nn.Module):
    """Resizes a table of positions unless it has the size of the image, as vision models do."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.randn(1, 16, 8))
        self.patches = nn.Conv2d(3, 8, 4, 4)

    def positions(self, count: int, height: int, width: int) -> torch.Tensor:
        if count == 16 and height == width:
            return self.table
        table = self.table.reshape(1, 4, 4, 8).permute(0, 3, 1, 2)
        table = F.interpolate(table, size=(height, width), mode="bicubic")
        return table.permute(0, 2, 3, 1).reshape(1, -1, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.patches(x).flatten(2).mT
        y = y + self.positions(y.shape[1], x.shape[2] // 4, x.shape[3] // 4)
        return y.softmax(-1) @ y.mT


@pytest.mark.parametrize("size", [(16, 16), (16, 24), (8, 32)])
def test_a_table_of_positions(size: tuple[int, int]) -> None:
    module = Positions().eval()
    program = exported(module, (torch.randn(2, 3, *size),), ({0: "b", 2: "h", 3: "w"},))
    assert_native(program)
    assert conditions(program) == []
    shapes = [(2, 3, 16, 16), (1, 3, 8, 32), (3, 3, 20, 24), (1, 3, 4, 4), (1, 3, 19, 17)]
    assert_equal_to_eager(program, module, *((torch.randn(shape),) for shape in shapes))


class Counting(nn.Module):
    """Keeps how often it took each way, and writes to a buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("total", torch.zeros(4))
        self.ways = {"short": 0, "long": 0}

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.ways["short" if x.shape[1] < 6 else "long"] += 1
        y = x.sum(1) if x.shape[1] < 6 else x.mean(1)
        self.total.add_(y.sum(0))
        return y + self.total


def test_writes_and_state_of_both_ways() -> None:
    module = Counting().eval()
    with onnx_native.options(state=True):
        program = exported(module, of_length(5), DYNAMIC)
    assert_native(program)
    assert module.ways == {"short": 0, "long": 0}
    assert conditions(program) == []
    for n in (3, 5, 6, 9):
        fresh = Counting().eval()
        (x,) = of_length(n)
        expected = fresh(x)
        torch.testing.assert_close(list(program(x)), [expected, fresh.total])


def test_ways_with_different_results_leave_a_guard() -> None:
    """A pair on one way and one tensor on the other cannot be one model."""

    def pair_or_one(x: torch.Tensor) -> Any:
        return (x, x + 1) if x.shape[1] > 5 else x

    with pytest.warns(torch.onnx.errors.OnnxExporterWarning, match="n <= 5"):
        program = exported(Calling(pair_or_one), of_length(4), (DYNAMIC,))
    assert conditions(program) == ["n <= 5"]
    assert_equal_to_eager(program, Calling(pair_or_one), of_length(3), of_length(5))


def test_each_size_has_its_own_number() -> None:
    """A loop over parts of a size is no branch: a way for each number of parts has no end.

    It is rolled where all parts are equal.
    """

    def parts(x: torch.Tensor) -> torch.Tensor:
        return torch.cat([part * i for i, part in enumerate(x.split(4, 1))], 1)

    # A way for less than one part is one of sizes, not of parts.
    for example, others in ((8, (4, 12, 32)), (7, (5, 6, 8))):
        with pytest.warns(torch.onnx.errors.OnnxExporterWarning, match="valid only where"):
            program = exported(Calling(parts), of_length(example), (DYNAMIC,))
        assert count_of(program, "If") <= 1
        assert_equal_to_eager(program, Calling(parts), *map(of_length, (example, *others)))


def test_the_way_of_the_example_only() -> None:
    with (
        onnx_native.options(branches="example"),
        pytest.warns(torch.onnx.errors.OnnxExporterWarning, match="n <= 8"),
    ):
        program = exported(Calling(limited), (X,), (DYNAMIC,))
    assert conditions(program) == ["n <= 8"]
    assert count_of(program, "If") == 0
    with pytest.raises(ValueError, match="branches="), onnx_native.options(branches="all"):  # type: ignore[arg-type]
        pass


def test_sizes_of_comparisons_follow_both_ways() -> None:
    """compare() and the report take sizes of both ways."""
    program = exported(Calling(limited), (X,), (DYNAMIC,))
    for n in (5, 12):
        comparison = onnx_native.compare(program, *of_length(n))
        assert len(comparison) > 1
        assert comparison.first is None


def attending(x: torch.Tensor) -> torch.Tensor:
    """Decides as transformers does: by the number of queries, and by the batch."""
    heads = x.unflatten(-1, (2, 2)).transpose(1, 2)
    positions = torch.arange(x.shape[1])[None]
    if x.shape[0] != 1:
        positions = positions.expand(x.shape[0], -1)
    y = F.scaled_dot_product_attention(heads, heads, heads, is_causal=x.shape[1] > 1)
    return y.transpose(1, 2).reshape(x.shape) + positions[..., None]


def test_special_sizes_of_language_models_need_no_branch() -> None:
    program = exported(Calling(attending), (X,), (DYNAMIC,))
    assert conditions(program) == []
    assert count_of(program, "If") == 0
    lengths = [of_length(n, batch) for n in (1, 2, 9) for batch in (1, 3)]
    assert_equal_to_eager(program, Calling(attending), *lengths)


class Steps(nn.Module):
    """A recurrence whose first step is the only one for one row."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        state = x[:, 0]
        if x.shape[1] == 1:
            return state.tanh()
        for t in range(1, x.shape[1]):
            state = state * 0.5 + x[:, t]
        return state


def test_a_way_beside_a_loop() -> None:
    module = Steps().eval()
    program = exported(module, (X,), DYNAMIC)
    assert len(program.export_report["capture"]["rolled"]) == 1
    assert conditions(program) == []
    assert_equal_to_eager(program, module, *map(of_length, (1, 2, 3, 9)))


def one_of(x: torch.Tensor) -> torch.Tensor:
    return x * (2 if x.shape[1] in [1, 2, 5] else 3)


@pytest.mark.parametrize("example", [2, 5, 7])
def test_a_choice_of_several_sizes(example: int) -> None:
    program = exported(Calling(one_of), of_length(example), (DYNAMIC,))
    assert_native(program)
    assert conditions(program) == []
    assert_equal_to_eager(program, Calling(one_of), *map(of_length, LENGTHS))


def of_other_rank_then_equal(x: torch.Tensor) -> torch.Tensor:
    if x.shape[1] % 2:
        return x.sum(1)
    return x * 2 if x.shape[1] > 3 else 2 * x


def raises_then_equal(x: torch.Tensor) -> torch.Tensor:
    if x.shape[1] % 4:
        raise ValueError("no multiple of four")
    return x * 2 if x.shape[1] > 4 else 2 * x


@pytest.mark.parametrize(
    ("function", "guard"),
    [(of_other_rank_then_equal, "n % 2 == 0"), (raises_then_equal, "n % 4 == 0")],
)
def test_a_way_of_one_size_needs_the_decisions_before_it(function: Any, guard: str) -> None:
    """Under the first guard, the other way of the second one has a single size."""
    program = exported(Calling(function), of_length(8), (DYNAMIC,))
    assert conditions(program) == [guard]
    assert_equal_to_eager(program, Calling(function), *map(of_length, (4, 8, 12)))


def test_ways_with_other_structures_leave_a_guard() -> None:
    """Results have places in a model, and names in the program."""

    def named(x: torch.Tensor) -> Any:
        return {"a": x * 2, "b": x - 1} if x.shape[1] > 4 else {"b": x - 1, "a": x * 2}

    program = exported(Calling(named), of_length(6), (DYNAMIC,))
    assert conditions(program) == ["n > 4"]
