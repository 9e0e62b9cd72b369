"""Programs that ask whether two dynamic sizes of the example, which are equal, always are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import onnx_native
import pytest
import torch
from models.recording import assert_equal_to_eager, assert_native, exported
from torch import Tensor, nn

Program = Callable[..., Any]
D = torch.export.Dim.DYNAMIC
BY_SIZES = ({0: D}, {0: D})
BY_NUMBERS = ({0: D}, D)


class Model(nn.Module):
    def __init__(self, function: Callable[[Tensor, Any], Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor, y: Any) -> Tensor:
        return self.function(x, y)


def same(x: Tensor, y: Tensor) -> Tensor:
    return x.sum() + y.sum() if x.shape[0] == y.shape[0] else x.sum() - y.sum()


def other(x: Tensor, y: Tensor) -> Tensor:
    return x.sum() - y.sum() if x.shape != y.shape else x.sum() + y.sum()


def three_ways(x: Tensor, y: Tensor) -> Tensor:
    if x.shape[0] > y.shape[0]:
        return x.sum() * 2
    return y.sum() * 3 if x.shape[0] < y.shape[0] else x.sum() + y.sum()


def resized(x: Tensor, y: Tensor) -> Tensor:
    if x.shape[0] != y.shape[0]:
        x = x[:1].expand(y.shape[0], -1)
    return x + y


def number(x: Tensor, k: int) -> Tensor:
    return x + 1 if k == x.shape[0] else x * 2


def twice(x: Tensor, k: int) -> Tensor:
    return x + 1 if x.shape[0] == 2 * k else x * 2


def raises(x: Tensor, y: Tensor) -> Tensor:
    if x.shape[0] != y.shape[0]:
        raise ValueError("other sizes")
    return x.sum() - y.sum()


def raises_below(x: Tensor, y: Tensor) -> Tensor:
    if x.shape[0] > y.shape[0]:
        raise ValueError("other sizes")
    return y.sum() * 3 if x.shape[0] < y.shape[0] else x.sum() + y.sum()


def pair(n: int, m: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(n)
    return torch.randn(n, 3, generator=generator), torch.randn(m, 3, generator=generator)


def of_number(n: int, k: int) -> tuple[Tensor, int]:
    return pair(n, 1)[0], k


CASES = [
    (same, BY_SIZES, pair, (6, 6), [(5, 6), (6, 5), (7, 7), (1, 1)]),
    (other, BY_SIZES, pair, (6, 6), [(5, 6), (6, 5), (7, 7), (1, 1)]),
    (three_ways, BY_SIZES, pair, (6, 6), [(5, 6), (6, 5), (7, 7), (1, 1)]),
    (resized, BY_SIZES, pair, (6, 6), [(5, 6), (6, 5), (7, 7), (1, 1)]),
    (number, BY_NUMBERS, of_number, (6, 6), [(6, 5), (7, 7), (7, 6), (1, 1)]),
    (twice, BY_NUMBERS, of_number, (6, 3), [(6, 2), (8, 4), (5, 3)]),
]


@pytest.mark.parametrize(
    ("function", "shapes", "example", "sizes", "others"), CASES, ids=lambda each: str(each)[:20]
)
def test_both_ways(
    function: Program, shapes: Any, example: Program, sizes: Any, others: list[Any]
) -> None:
    module = Model(function)
    program = exported(module, example(*sizes), shapes)
    assert_native(program)
    assert program.export_report["capture"]["guards"] == []
    assert_equal_to_eager(program, module, *(example(*each) for each in [sizes, *others]))


def test_sizes_that_must_be_equal_are_one() -> None:
    program = exported(Model(raises), pair(6, 6), BY_SIZES)
    assert_native(program)
    assert program.export_report["capture"]["guards"] == []
    x, y = program.model_proto.graph.input
    assert x.type.tensor_type.shape.dim[0] == y.type.tensor_type.shape.dim[0]
    assert_equal_to_eager(program, Model(raises), pair(4, 4))


def test_a_way_that_raises_has_a_guard() -> None:
    program = exported(Model(raises_below), pair(6, 6), BY_SIZES)
    assert_native(program)
    (guard,) = program.export_report["capture"]["guards"]
    assert guard["condition"].startswith("s0 <= s1")
    assert_equal_to_eager(program, Model(raises_below), pair(5, 6), pair(7, 7))


@pytest.mark.parametrize("capture", ["native", "torch.export"])
def test_the_way_of_the_example_has_a_guard(capture: Any) -> None:
    with onnx_native.options(capture=capture, branches="example"):
        program = torch.onnx.export(
            Model(same), pair(6, 6), dynamo=True, dynamic_shapes=BY_SIZES, verbose=False
        )
    assert program is not None
    (guard,) = program.export_report["capture"]["guards"]
    assert guard["condition"].count(" == ") == 1
    assert guard["source"].startswith("test_equal_sizes.py:")
    assert_equal_to_eager(program, Model(same), pair(4, 4))


def test_numbers_that_torch_export_makes_one() -> None:
    class Numbers(nn.Module):
        def forward(self, x: Tensor, k: int, m: int) -> Tensor:
            return x + 1 if k == m else x * 2

    program = exported(Numbers(), (torch.ones(2), 4, 4), ({0: D}, D, D))
    assert_native(program)
    assert_equal_to_eager(program, Numbers(), (torch.ones(3), 4, 5), (torch.ones(3), 5, 5))
    with onnx_native.options(capture="torch.export"):
        program = torch.onnx.export(
            Numbers(), (torch.ones(2), 4, 4), dynamo=True, dynamic_shapes=({0: D}, D, D)
        )
    (guard,) = program.export_report["capture"]["guards"]
    assert guard["condition"] == "k == m"


class Extended(nn.Module):
    """A cache: the mask is as long as the past and the new rows together."""

    def forward(self, past: Tensor, x: Tensor, mask: Tensor) -> Tensor:
        rows = torch.cat([past, x]) * mask[:, None]
        return rows.sum(0) if x.shape[0] == 1 else rows.cumsum(0)[-1] * 2


def test_a_name_that_is_the_sum_of_names() -> None:
    """Recordings at other sizes keep the sum."""
    sizes = ({0: "past"}, {0: "n"}, {0: "past + n"})
    examples = [
        (torch.rand(past, 2), torch.rand(n, 2), torch.rand(past + n))
        for past, n in ((3, 4), (3, 1), (0, 5), (6, 1))
    ]
    program = exported(Extended(), examples[0], sizes)
    assert_native(program)
    assert program.export_report["capture"]["guards"] == []
    assert_equal_to_eager(program, Extended(), *examples)


def test_a_name_that_is_no_sum() -> None:
    sizes = ({0: "past"}, {0: "n"}, {0: "past + n"})
    example = (torch.rand(3, 2), torch.rand(4, 2), torch.rand(1))
    program = exported(Extended(), example, sizes)
    size = program.model_proto.graph.input[2].type.tensor_type.shape.dim[0]
    assert size.dim_param == "past + n"
