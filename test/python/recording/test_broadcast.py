"""Native capture of writes that broadcast: right, or an error where eager fails."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from models.calling import Calling
from models.recording import (
    assert_equal_to_eager,
    assert_native,
    assert_recorded,
    exported,
    reason_of,
)

Program = Callable[[torch.Tensor, torch.Tensor], Any]
SHAPES = (({0: "n"}, {0: "m"}),)


def written(write: Callable[[torch.Tensor, torch.Tensor], Any]) -> Program:
    """A program that writes to a copy of its first argument."""

    def program(x: torch.Tensor, y: torch.Tensor) -> Any:
        z = x * 1
        write(z, y)
        return z, z.reshape(-1), z.shape[0]

    return program


WRITES: dict[str, Callable[[torch.Tensor, torch.Tensor], Any]] = {
    "add": lambda z, y: z.add_(y),
    "add_of_a_view": lambda z, y: z[:, :2].add_(y[:, :2]),
    "multiply": lambda z, y: z.__imul__(y),
    "compare": lambda z, y: z.ge_(y),
    "fill": lambda z, y: z.masked_fill_(y > 0, 2.0),
    "copy": lambda z, y: z.copy_(y),
    "assign": lambda z, y: z.__setitem__(slice(None), y),
    "several": lambda z, y: z.addcmul_(y, y),
    "interpolate": lambda z, y: z.lerp_(y, 0.5),
    "clamp": lambda z, y: z.clamp_(min=y),
}


def tensors(n: int, m: int) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randn(n, 4), torch.randn(m, 4)


@pytest.mark.parametrize("sizes", [(5, 5), (5, 1)])
@pytest.mark.parametrize("write", WRITES)
def test_two_dynamic_sizes(write: str, sizes: tuple[int, int]) -> None:
    module = Calling(written(WRITES[write]))
    with pytest.warns(torch.onnx.errors.OnnxExporterWarning, match="m == 1 or m == n"):
        program = exported(module, tensors(*sizes), SHAPES)
    assert_native(program)
    (guard,) = program.export_report["capture"]["guards"]
    assert guard["condition"] == "m == 1 or m == n"
    assert guard["source"].startswith("test_broadcast.py")
    assert_equal_to_eager(program, module, *(tensors(*s) for s in [(5, 5), (3, 1), (1, 1)]))


def assigning(write: str) -> Any:
    reason = "Expand, which copies become, broadcasts both ways"
    marks = [pytest.mark.xfail(strict=True, reason=reason)] if write in ("copy", "assign") else []
    return pytest.param(write, marks=marks)


@pytest.mark.parametrize("write", map(assigning, WRITES))
def test_fails_where_eager_fails(write: str) -> None:
    module = Calling(written(WRITES[write]))
    with pytest.warns(torch.onnx.errors.OnnxExporterWarning):
        program = exported(module, tensors(5, 5), SHAPES)
    for sizes in [(4, 2), (1, 3)]:
        with pytest.raises(RuntimeError):
            module(*tensors(*sizes))
        with pytest.raises(Exception, match="node_"):
            program(*tensors(*sizes))


def test_the_same_size_needs_no_guard() -> None:
    module = Calling(written(WRITES["add"]))
    program = exported(module, tensors(5, 5), (({0: "n"}, {0: "n"}),))
    assert_native(program)
    assert program.export_report["capture"]["guards"] == []
    assert_equal_to_eager(program, module, tensors(5, 5), tensors(1, 1))


def test_a_number_fixes_the_size() -> None:
    def program(x: torch.Tensor) -> Any:
        return (x * 1).add_(torch.ones(5, 4))

    shapes = (({0: "n"},),)
    assert "n == 5" in reason_of(Calling(program), (torch.randn(5, 4),), shapes)


def test_the_size_of_a_broadcast_is_an_argument() -> None:
    def program(x: torch.Tensor, y: torch.Tensor) -> Any:
        z = x + y
        flat = z.reshape(z.shape[0], 2, 2)
        return flat, torch.zeros(z.shape[0], 1) + z, torch.relu(z).view(-1, z.shape[0]).sum(1)

    sizes = [(3, 3), (1, 4), (4, 1), (1, 1)]
    assert_recorded(Calling(program), SHAPES, *(tensors(*each) for each in sizes))


def test_numbers_of_repeats_of_which_there_may_be_one() -> None:
    module = Calling(lambda x, n: torch.repeat_interleave(x, n, dim=0))
    counts = torch.tensor([2, 0, 3])
    one = (torch.randn(3, 4), torch.tensor([2]))
    each = (torch.randn(3, 4), counts)
    single = (torch.randn(1, 4), torch.tensor([3]))
    for examples in ((one, each, single), (each, one, single)):
        assert_recorded(module, SHAPES, *examples)


def test_a_slope_for_all_channels_or_for_each() -> None:
    module = Calling(lambda x, slopes: torch.nn.functional.prelu(x, slopes))
    one = (torch.randn(2, 3), torch.tensor([0.5]))
    each = (torch.randn(2, 3), torch.tensor([0.5, -1.0, 2.0]))
    for examples in ((one, each), (each, one)):
        assert_recorded(module, (({0: "n", 1: "c"}, {0: "m"}),), *examples)


def test_counts_that_are_equal_or_one() -> None:
    class Module(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x[x > 0] * x[x > 1] + 1

    examples = [(torch.tensor(each),) for each in ([2.0, 3, -1], [2, 0.5, 0.5], [2.0], [0.5, -1])]
    assert_recorded(Module(), ({0: "n"},), *examples)
