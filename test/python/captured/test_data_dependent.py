"""Programs with data-dependent sizes, run with inputs that give other sizes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import onnx
import pytest
import torch
import torch.nn.functional as F
from models.torchvision_kernels import load_torchvision_kernels

load_torchvision_kernels()

import torchvision  # noqa: E402  needs the kernels

pytestmark = pytest.mark.captures("auto", "torch.export")

Program = Callable[..., Any]
PROGRAMS: dict[str, Program] = {}


def scenario(program: Program) -> Program:
    PROGRAMS[program.__name__] = program
    return program


@scenario
def nonzero(x: torch.Tensor) -> Any:
    return torch.nonzero(x > 0)


@scenario
def nonzero_as_tuple(x: torch.Tensor) -> Any:
    a, b = torch.nonzero(x > 0, as_tuple=True)
    return a * 2, b


@scenario
def where_of_a_condition(x: torch.Tensor) -> Any:
    return torch.where(x > 0)[0]


@scenario
def argwhere(x: torch.Tensor) -> Any:
    return torch.argwhere(x > 0)


@scenario
def masked_select(x: torch.Tensor) -> Any:
    return torch.masked_select(x, x > 0) * 2


@scenario
def boolean_index(x: torch.Tensor) -> Any:
    return x[x > 0].exp()


@scenario
def rows_by_mask(x: torch.Tensor) -> Any:
    y = x[x[:, 0] > 0]
    return y.sum(1), y @ y.t()


@scenario
def reshaped_selection(x: torch.Tensor) -> Any:
    y = x[x[:, 0] > 0]
    return y.reshape(-1), y.view(y.shape[0], 5, 1) + 1


@scenario
def two_masks(x: torch.Tensor) -> Any:
    return torch.cat([x[x > 0], x[x <= 0]])


@scenario
def item_int(x: torch.Tensor) -> Any:
    count = (x > 0).sum().item()
    return x * count


@scenario
def reductions_of_rows(x: torch.Tensor) -> Any:
    y = x[x[:, 0] > 0]
    return (y > 1).any(), (y > 1).all(0), y.mean(), y.mean(0), y.var(), y[:1].sum(0), y[:1]


@scenario
def losses_of_rows(x: torch.Tensor) -> Any:
    y = x[x[:, 0] > 0]
    of_classes = F.cross_entropy(y, torch.zeros(y.shape[0], dtype=torch.long))
    return F.mse_loss(y, y + 1), F.smooth_l1_loss(y, y * 2), of_classes


@scenario
def nonzero_of_rows(x: torch.Tensor) -> Any:
    return x[x[:, 0] > 0].nonzero()


@scenario
def products_of_rows(x: torch.Tensor) -> Any:
    y = x[x[:, 0] > 0]
    return y.cumprod(0), y.cumprod(1), y.logcumsumexp(1)


@scenario
def item_as_a_size(x: torch.Tensor) -> Any:
    count = (x > 0).sum().item()
    torch._check(count >= 0)
    return torch.zeros(count) + 1


@scenario
def item_within_bounds(x: torch.Tensor) -> Any:
    count = (x[:, 0] > -100).sum().item()
    torch._check(count >= 1)
    torch._check(count <= x.shape[0])
    return x[:count] * 2


@scenario
def item_float(x: torch.Tensor) -> Any:
    s = x.max().item()
    return x / (s + 1)


@scenario
def item_bool(x: torch.Tensor) -> Any:
    s = (x > 0).any().item()
    return x * s


@scenario
def item_narrow(x: torch.Tensor) -> Any:
    count = (x[:, 0] > 0).sum().item()
    torch._check(count >= 0)
    torch._check(count <= x.shape[0])
    return x.narrow(0, 0, count)


@scenario
def item_arange(x: torch.Tensor) -> Any:
    count = (x > 0).sum().item()
    torch._check(count >= 0)
    return torch.arange(count)


@scenario
def item_slice(x: torch.Tensor) -> Any:
    count = (x > 0).sum().item()
    return torch.ones(50)[:count]


@scenario
def tolist(x: torch.Tensor) -> Any:
    a, b = torch.stack([(x > 0).sum(), (x > 1).sum()]).tolist()
    torch._check(a >= 0)
    torch._check(b >= 0)
    return torch.zeros(a, b)


@scenario
def unique(x: torch.Tensor) -> Any:
    return torch.unique((x > 0).long().sum(1))


@scenario
def unique_inverse_counts(x: torch.Tensor) -> Any:
    return torch.unique((x > 0).long(), return_inverse=True, return_counts=True)


@scenario
def unique_dim(x: torch.Tensor) -> Any:
    return torch.unique((x > 0).long(), dim=0)


@scenario
def unique_consecutive(x: torch.Tensor) -> Any:
    return torch.unique_consecutive((x > 0).long(), return_inverse=True, return_counts=True)


@scenario
def cond_on_item(x: torch.Tensor) -> Any:
    return torch.cond(x.sum().item() > 0, lambda x: x + 1, lambda x: x - 1, (x,))


@scenario
def selection_in_a_branch(x: torch.Tensor) -> Any:
    return torch.cond(x.sum() > 0, lambda x: x[x > 0].sum(), lambda x: x.sum(), (x,))


@scenario
def sorted_selection(x: torch.Tensor) -> Any:
    v, i = x[:, 0].sort(descending=True)
    kept = v > 0
    return i[kept], x[i[kept]]


@scenario
def bincount(x: torch.Tensor) -> Any:
    return torch.bincount((x > 0).long().reshape(-1), minlength=3)


@scenario
def assertion_on_data(x: torch.Tensor) -> Any:
    torch._assert_async((x.abs() < 100).all())
    return x + 1


@scenario
def check_is_size(x: torch.Tensor) -> Any:
    count = (x > 0).sum().item()
    torch._check_is_size(count)
    return x.new_ones(count, 2)


@scenario
def expanded_by_data(x: torch.Tensor) -> Any:
    count = (x > 0).sum().item()
    torch._check(count >= 0)
    y = x[0].unsqueeze(0).expand(count, 5)
    return y.sum(0), y


@scenario
def topk_by_data(x: torch.Tensor) -> Any:
    count = (x[0] > -1e9).sum().item()
    torch._check(count >= 1)
    torch._check(count <= 5)
    return torch.topk(x, count, 1)


@scenario
def padded_by_data(x: torch.Tensor) -> Any:
    count = (x > 0).sum().item()
    torch._check(count >= 0)
    return torch.nn.functional.pad(x, (0, count))


@scenario
def row_by_item(x: torch.Tensor) -> Any:
    count = x[:, 0].argmax().item()
    torch._check(count >= 0)
    torch._check(count < x.shape[0])
    return x[count]


@scenario
def sums_of_selections(x: torch.Tensor) -> Any:
    return x[x > 0].sum(), x[x > 0].numel()


@scenario
def divided_by_its_size(x: torch.Tensor) -> Any:
    y = x[x > 0]
    return y / y.shape[0]


class Model(torch.nn.Module):
    def __init__(self, program: Program) -> None:
        super().__init__()
        self.program = program

    def forward(self, x: torch.Tensor, y: torch.Tensor | None = None) -> Any:
        return self.program(x) if y is None else self.program(x, y)


def export(model: torch.nn.Module, args: tuple[torch.Tensor, ...], *shapes: Any) -> Any:
    program = torch.onnx.export(model, args, dynamo=True, dynamic_shapes=shapes, verbose=False)
    assert program is not None
    onnx.checker.check_model(program.model_proto, full_check=True)
    return program


def check(program: Any, model: torch.nn.Module, *inputs: tuple[torch.Tensor, ...]) -> None:
    for args in inputs:
        expected = [torch.as_tensor(y) for y in torch.utils._pytree.tree_leaves(model(*args))]
        torch.testing.assert_close(list(program(*args)), expected, equal_nan=True)


def output_dims(program: Any) -> list[list[str | int]]:
    return [
        [dim.dim_param or dim.dim_value for dim in value.type.tensor_type.shape.dim]
        for value in program.model_proto.graph.output
    ]


@pytest.mark.parametrize("name", PROGRAMS)
def test_equals_eager(name: str) -> None:
    torch.manual_seed(0)
    model = Model(PROGRAMS[name])
    x = torch.randn(4, 5)
    program = export(model, (x,), {0: "rows"})
    assert program.model_proto.graph.input[0].type.tensor_type.shape.dim[0].dim_param == "rows"
    check(program, model, (x,), (torch.randn(7, 5),), (-torch.rand(3, 5),), (torch.rand(6, 5),))
    assert output_dims(export(model, (x,), {0: "rows"})) == output_dims(program)


def test_names_of_sizes() -> None:
    model = Model(lambda x: (x[x > 0], torch.cat([x[x > 1], x[x <= 1]]), x * 2))
    dims = output_dims(export(model, (torch.randn(4, 5),), {0: "rows"}))
    assert dims == [["u0"], ["u1 + u2"], ["rows", 5]]


@pytest.mark.parametrize("of_rows", [True, False])
def test_repeat_interleave(of_rows: bool) -> None:
    model = Model(
        (lambda x, n: torch.repeat_interleave(x, n, 0))
        if of_rows
        else (lambda x, n: torch.repeat_interleave(n) + x.shape[0])
    )
    counts = [torch.tensor(counts) for counts in ([1, 2, 0, 3], [2, 2, 1], [0, 0])]
    inputs = [(torch.randn(len(n), 5), n) for n in counts]
    check(export(model, inputs[0], {0: "rows"}, {0: "rows"}), model, *inputs)


def test_split_by_data() -> None:
    def split(x: torch.Tensor, sizes: torch.Tensor) -> Any:
        lengths = sizes.tolist()
        for length in lengths:
            torch._check(length >= 0)
        return torch.split(x, lengths)

    model = Model(split)
    inputs = [
        (torch.randn(6, 5), torch.tensor(sizes)) for sizes in ([1, 2, 3], [2, 2, 2], [0, 6, 0])
    ]
    program = export(model, inputs[0], None, None)
    check(program, model, *inputs)
    assert output_dims(program) == [["u0", 5], ["u1", 5], ["u2", 5]]


def boxes(count: int) -> tuple[torch.Tensor, torch.Tensor]:
    corners = torch.rand(count, 2) * 10
    return torch.cat([corners, corners + torch.rand(count, 2) * 10], 1), torch.rand(count)


def suppress(boxes: torch.Tensor, scores: torch.Tensor) -> Any:
    kept = torchvision.ops.nms(boxes, scores, 0.3)
    return kept, boxes[kept], scores[kept]


def suppress_by_class(boxes: torch.Tensor, scores: torch.Tensor) -> Any:
    kept = torchvision.ops.batched_nms(boxes, scores, (scores > 0.5).long(), 0.3)
    return kept, boxes[kept]


def best_of_the_kept(boxes: torch.Tensor, scores: torch.Tensor) -> Any:
    return boxes[torchvision.ops.nms(boxes, scores, 0.3)[:2]]


@pytest.mark.parametrize("program", [suppress, suppress_by_class, best_of_the_kept])
def test_nms(program: Program) -> None:
    torch.manual_seed(0)
    model = Model(program)
    inputs = [boxes(count) for count in (6, 20, 2)]
    check(export(model, inputs[0], {0: "boxes"}, {0: "boxes"}), model, *inputs)
