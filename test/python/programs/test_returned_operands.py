"""Branches and bodies of loops that return what they are given, a view of it, or a value twice."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import onnx_native
import pytest
import torch
from models import running
from models.calling import Calling
from models.recording import Function, assert_native, exported, function_id
from torch._higher_order_ops.associative_scan import associative_scan
from torch._higher_order_ops.map import map as map_over
from torch._higher_order_ops.scan import scan
from torch._higher_order_ops.while_loop import while_loop

# PyTorch refuses these programs in eager. What they compute follows from Python's own branches and
# loops, each result of which is a tensor of its own.


pytestmark = pytest.mark.usefixtures("compiles_anew")


def copies(results: Any) -> Any:
    return torch.utils._pytree.tree_map_only(torch.Tensor, torch.clone, results)


def plain_cond(condition: Any, yes: Any, no: Any, operands: Any = ()) -> Any:
    return copies((yes if condition else no)(*operands))


def plain_loop(condition: Any, body: Any, carried: Any) -> Any:
    carried = copies(carried)
    while condition(*carried):
        carried = copies(body(*carried))
    return carried


def plain_scan(step: Any, init: Any, xs: Any) -> Any:
    carry, rows = copies(init), []
    for each in xs:
        carry, row = copies(step(carry, each.clone()))
        rows.append(row)
    return carry, torch.utils._pytree.tree_map(lambda *each: torch.stack(each), *rows)


def plain_associative_scan(combine: Any, x: torch.Tensor, dim: int, **_: Any) -> Any:
    def step(carry: Any, row: Any) -> Any:
        following = combine(carry[None], row[None])[0]
        return following, following

    rows = plain_scan(step, x.select(dim, 0), x.movedim(dim, 0)[1:])[1]
    return torch.cat([x.movedim(dim, 0)[:1], rows]).movedim(0, dim)


def plain_map(function: Any, x: torch.Tensor) -> Any:
    return torch.utils._pytree.tree_map(
        lambda *each: torch.stack(each), *(copies(function(row.clone())) for row in x)
    )


PLAIN: dict[str, Callable[..., Any]] = {
    "associative_scan": plain_associative_scan,
    "scan": plain_scan,
    "while_loop": plain_loop,
    "map_over": plain_map,
}


def outputs_of_plain(function: Function, x: torch.Tensor) -> list[torch.Tensor]:
    with (
        mock.patch.dict(function.__globals__, PLAIN),
        mock.patch.object(torch, "cond", plain_cond),
    ):
        return list(torch.utils._pytree.tree_leaves(function(x.clone())))


def one_branch(x: torch.Tensor) -> Any:
    return torch.cond(x.sum() > 0, lambda a: a, lambda a: a * 2, (x,))


def both_branches(x: torch.Tensor) -> Any:
    y = x + 1
    return torch.cond(x.sum() > 0, lambda a, b: a, lambda a, b: b, (x, y))


def the_same_in_both_branches(x: torch.Tensor) -> Any:
    return torch.cond(x.sum() > 0, lambda a: a, lambda a: a, (x,))


def an_outer_tensor(x: torch.Tensor) -> Any:
    y = x.cos()
    return torch.cond(x.sum() > 0, lambda: y, lambda: x)


def views(x: torch.Tensor) -> Any:
    return torch.cond(
        x.sum() > 0,
        lambda a: (a.transpose(0, 1), a[:, 1:], a.reshape(-1), a[0].expand(2, -1)),
        lambda a: (a.transpose(0, 1) * 2, a[:, :-1], a.flatten() + 1, a[:1] + a[:2]),
        (x,),
    )


def views_of_other_layouts(x: torch.Tensor) -> Any:
    return torch.cond(
        x.sum() > 0,
        lambda a: a.transpose(0, 1),
        lambda a: torch.ones(a.shape[1], a.shape[0]),
        (x,),
    )


def of_several_sizes(x: torch.Tensor) -> Any:
    return torch.cond(x.sum() > 0, lambda a: a[:, :1], lambda a: a, (x,)) + 1


def a_value_and_its_view(x: torch.Tensor) -> Any:
    def twice(a: torch.Tensor) -> Any:
        b = a * 2
        return b, b.view(-1), b

    return torch.cond(x.sum() > 0, twice, lambda a: (a, a.view(-1), a), (x,))


def written_afterwards(x: torch.Tensor) -> Any:
    y = torch.cond(x.sum() > 0, lambda a: a, lambda a: a * 2, (x,))
    y.add_(1)
    y[0] = 7
    return x * 1, y


def the_operand_is_written_afterwards(x: torch.Tensor) -> Any:
    z = x * 3
    y = torch.cond(x.sum() > 0, lambda a: a, lambda a: a[:], (z,))
    z.mul_(2)
    return y, z


def results_are_written_one_by_one(x: torch.Tensor) -> Any:
    y, z = torch.cond(x.sum() > 0, lambda a: (a, a), lambda a: (a, a.view_as(a)), (x,))
    y.add_(1)
    z.mul_(2)
    return x + 0, y, z


def nested(x: torch.Tensor) -> Any:
    def inner(a: torch.Tensor) -> torch.Tensor:
        return torch.cond(a.amax() > 1, lambda b: b, lambda b: b + 1, (a,))

    return torch.cond(x.sum() > 0, inner, lambda a: a, (x,))


def a_carried_value_that_stays(x: torch.Tensor) -> Any:
    return while_loop(lambda i, a: i < 3, lambda i, a: (i + 1, a), (torch.tensor(0), x))


def carried_values_that_swap(x: torch.Tensor) -> Any:
    def body(i: Any, a: Any, b: Any) -> Any:
        return i + 1, b, a

    return while_loop(lambda i, a, b: i < 3, body, (torch.tensor(0), x, x * 2))


def one_value_carried_twice(x: torch.Tensor) -> Any:
    def body(i: Any, a: Any, b: Any) -> Any:
        return i + 1, b, b

    return while_loop(lambda i, a, b: i < 2, body, (torch.tensor(0), x, x * 2))


def a_carried_view(x: torch.Tensor) -> Any:
    def body(i: Any, a: Any, rows: Any) -> Any:
        return i + 1, a.transpose(0, 1), rows.flip(0)[:]

    square = x[:, :1] * x[:, :1].transpose(0, 1)
    return while_loop(lambda i, *_: i < 3, body, (torch.tensor(0), square, x))


def a_body_that_writes(x: torch.Tensor) -> Any:
    def body(i: Any, a: Any) -> Any:
        a.add_(1)
        a[0] = 0
        return i + 1, a

    results = while_loop(lambda i, a: i < 3, body, (torch.tensor(0), x))
    return *results, x * 1


def an_outer_tensor_is_carried(x: torch.Tensor) -> Any:
    y = x.sin()
    return while_loop(lambda i, a: i < 2, lambda i, a: (i + 1, y), (torch.tensor(0), x))


def a_carry_for_each_row(x: torch.Tensor) -> Any:
    return scan(lambda carry, row: (carry + row, carry), x[0] * 0, x)


def rows_as_they_are(x: torch.Tensor) -> Any:
    return scan(lambda carry, row: (row, (row, carry, row[:2])), x[0] * 0, x)


def a_sum_twice(x: torch.Tensor) -> Any:
    def step(carry: torch.Tensor, row: torch.Tensor) -> Any:
        following = carry + row
        return following, following

    return scan(step, x[0] * 0, x)


def a_scan_that_writes(x: torch.Tensor) -> Any:
    def step(carry: torch.Tensor, row: torch.Tensor) -> Any:
        carry.add_(row)
        row.mul_(2)
        row[0] = 1
        return carry, row

    init = x[0] * 0
    return *scan(step, init, x), init + x


def the_last_of_an_associative_scan(x: torch.Tensor) -> Any:
    return associative_scan(lambda a, b: b, x, 0, combine_mode="generic")


def an_associative_scan_that_writes(x: torch.Tensor) -> Any:
    def combine(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return a.add_(b)

    return associative_scan(combine, x, 0, combine_mode="generic"), x * 1


def mapped_rows(x: torch.Tensor) -> Any:
    return map_over(lambda row: (row, row, row[1:]), x)


def a_map_that_writes(x: torch.Tensor) -> Any:
    return map_over(lambda row: row.mul_(2), x), x * 1


OF_BRANCHES: list[Function] = [
    one_branch,
    both_branches,
    the_same_in_both_branches,
    an_outer_tensor,
    views,
    views_of_other_layouts,
    of_several_sizes,
    a_value_and_its_view,
    written_afterwards,
    the_operand_is_written_afterwards,
    results_are_written_one_by_one,
    nested,
]
OF_LOOPS: list[Function] = [
    a_carried_value_that_stays,
    carried_values_that_swap,
    one_value_carried_twice,
    a_carried_view,
    a_body_that_writes,
    an_outer_tensor_is_carried,
    a_carry_for_each_row,
    rows_as_they_are,
    a_sum_twice,
    a_scan_that_writes,
    the_last_of_an_associative_scan,
    an_associative_scan_that_writes,
    mapped_rows,
    a_map_that_writes,
]

X = torch.randn(3, 5, generator=torch.Generator().manual_seed(0))


def examples() -> Iterator[torch.Tensor]:
    yield from (X, -X)
    larger = torch.randn(4, 6, generator=torch.Generator().manual_seed(1)).abs()
    yield from (larger, -larger)


def check(program: Any, function: Function, inputs: list[torch.Tensor]) -> None:
    for x in inputs:
        running.assert_same(program(x), outputs_of_plain(function, x))


@pytest.mark.parametrize("function", OF_BRANCHES + OF_LOOPS, ids=function_id)
@pytest.mark.parametrize("shapes", [None, ({0: "n", 1: "k"},)], ids=["static", "dynamic"])
def test_results_are_copies(function: Function, shapes: Any) -> None:
    program = exported(Calling(function), (X,), (shapes,) if shapes else None)
    assert_native(program)
    check(program, function, list(examples())[: None if shapes else 2])


@pytest.mark.parametrize(
    "function",
    [one_branch, written_afterwards, a_carried_value_that_stays, a_scan_that_writes, mapped_rows],
    ids=function_id,
)
def test_results_are_copies_through_torch_export(function: Function) -> None:
    with onnx_native.options(capture="torch.export"):
        program = torch.onnx.export(
            *(Calling(function), (X,)),
            dynamo=True,
            dynamic_shapes=(({0: "n", 1: "k"},),),
            verbose=False,
        )
    assert program is not None
    assert program.export_report["capture"]["by"] == "torch.export"
    check(program, function, list(examples()))


def test_eager_is_verified_with_copies(caplog: pytest.LogCaptureFixture) -> None:
    program = torch.onnx.export(
        Calling(written_afterwards), (X,), dynamo=True, verify=True, verbose=False
    )
    assert program is not None
    assert all(row["is_accurate"] for row in program.export_report["verification"])
    assert not caplog.records
