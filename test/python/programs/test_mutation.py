"""Programs that write to tensors: in place, through views, with out=, in branches and loops."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable
from typing import Any

import onnx
import pytest
import torch
from torch._higher_order_ops import scan, while_loop
from torch._higher_order_ops.map import map as map_over

pytestmark = pytest.mark.captures("auto", "torch.export")

Program = Callable[[torch.Tensor], Any]
PROGRAMS: dict[str, Program] = {}


def scenario(program: Program) -> Program:
    PROGRAMS[program.__name__] = program
    return program


@scenario
def ellipsis(x: torch.Tensor) -> Any:
    y = x.clone()
    y[..., 2] = x[..., 0] * 3
    return y


@scenario
def slice_of_columns(x: torch.Tensor) -> Any:
    y = x.clone()
    y[:, 1:3].add_(1)
    return y


@scenario
def row_of_a_transpose(x: torch.Tensor) -> Any:
    y = x.clone()
    y.t()[0].zero_()
    return y


@scenario
def index_put_accumulates(x: torch.Tensor) -> Any:
    y = x.clone()
    y.index_put_((torch.tensor([0, 0, 1]), torch.tensor([1, 1, 2])), torch.ones(3), accumulate=True)
    return y


@scenario
def copy_broadcasts(x: torch.Tensor) -> Any:
    y = x.clone()
    y[1:].copy_(x[0])
    y.copy_(torch.tensor(2.0))
    return y


@scenario
def copy_converts(x: torch.Tensor) -> Any:
    y = x.clone()
    y[:, 1].copy_(torch.tensor(2))
    return y


@scenario
def slices_with_steps(x: torch.Tensor) -> Any:
    y = x.clone()
    y[::2, 1::2] = 0.0
    y[1::2].mul_(3)
    return y


@scenario
def views_of_views(x: torch.Tensor) -> Any:
    y = x.clone()
    y.transpose(0, 1)[1:4].view(3, -1)[1][0] = 5.0
    return y


@scenario
def flatten_view(x: torch.Tensor) -> Any:
    y = x.clone()
    y.view(-1)[3:7] = 9.0
    y.view(-1, 5)[0].add_(1)
    return y


@scenario
def read_of_an_expanded_view(x: torch.Tensor) -> Any:
    y = x.clone()
    z = y.unsqueeze(1).expand(-1, 3, 5)
    y.add_(1)
    return z.sum(1)


@scenario
def split(x: torch.Tensor) -> Any:
    y = x.clone()
    a, b = y.split([2, 3], 1)
    a.mul_(b[:, :2])
    b.sub_(1)
    return y, a, b


@scenario
def negative_places(x: torch.Tensor) -> Any:
    y = x.clone()
    y[-1] = 0
    y[:, -2:] = 1
    return y


@scenario
def mask(x: torch.Tensor) -> Any:
    y = x.clone()
    y[y > 0] = 0
    return y


@scenario
def rows_by_mask(x: torch.Tensor) -> Any:
    y = x.clone()
    y[x[:, 0] > 0] = torch.arange(5.0)
    return y


@scenario
def masked_fill_(x: torch.Tensor) -> Any:
    y = x.clone()
    y[:, 1:].masked_fill_(x[:, 1:] > 0, 7.0)
    return y


@scenario
def lists_of_places(x: torch.Tensor) -> Any:
    y = x.clone()
    y[torch.tensor([0, 2]), 1:3] = 4.0
    return y


@scenario
def add_at_lists_of_places(x: torch.Tensor) -> Any:
    y = x.clone()
    y[:, torch.tensor([0, 2])] += 4.0
    return y


@scenario
def out_add(x: torch.Tensor) -> Any:
    y = torch.empty_like(x)
    torch.add(x, 1, out=y)
    return y


@scenario
def out_matmul(x: torch.Tensor) -> Any:
    y = x.new_empty(x.shape[0], x.shape[0])
    torch.matmul(x, x.t(), out=y)
    return y


@scenario
def out_view(x: torch.Tensor) -> Any:
    y = torch.zeros_like(x)
    torch.mul(x[0], 2, out=y[1])
    return y


@scenario
def out_cat(x: torch.Tensor) -> Any:
    y = x.new_empty(2 * x.shape[0], 5)
    torch.cat([x, x], out=y)
    return y


@scenario
def out_dtype(x: torch.Tensor) -> Any:
    y = torch.empty(x.shape, dtype=torch.float64)
    torch.add(x, x, out=y)
    return y


@scenario
def scatter(x: torch.Tensor) -> Any:
    y = x.clone()
    y.scatter_(1, torch.zeros(x.shape[0], 1, dtype=torch.long), 5.0)
    y.scatter_add_(0, torch.zeros_like(x, dtype=torch.long), x)
    return y


@scenario
def diagonal(x: torch.Tensor) -> Any:
    y = x.clone()
    y.fill_diagonal_(3.0)
    y.diagonal().add_(1)
    return y


@scenario
def tril(x: torch.Tensor) -> Any:
    y = x.clone()
    y.tril_()
    return y


@scenario
def activations_in_place(x: torch.Tensor) -> Any:
    return torch.nn.functional.relu(x * 1, inplace=True).clamp_(max=1).sigmoid_()


@scenario
def argument(x: torch.Tensor) -> Any:
    x.add_(1)
    return x * 2


@scenario
def integers(x: torch.Tensor) -> Any:
    i = torch.arange(5)
    i[1:3] += 2
    i.mul_(3)
    return x + i


@scenario
def bools(x: torch.Tensor) -> Any:
    m = x > 0
    m &= x < 1
    m[0] = True
    m.logical_not_()
    return m


@scenario
def as_strided(x: torch.Tensor) -> Any:
    y = x.clone()
    y.as_strided((2, 2), (5, 1), 1).fill_(8)
    return y


@scenario
def unbind(x: torch.Tensor) -> Any:
    y = x.clone()
    [c.add_(i) for i, c in enumerate(y.unbind(1))]
    return y


@scenario
def permuted_view(x: torch.Tensor) -> Any:
    y = x.clone().view(-1, 5, 1).permute(2, 1, 0)
    y[0, 2] = 3.0
    return y


@scenario
def parts_of_complex(x: torch.Tensor) -> Any:
    c = torch.complex(x, x)
    c.real.add_(1)
    c.imag[:, 0] = 0
    return torch.view_as_real(c)


@scenario
def size_into_complex(x: torch.Tensor) -> Any:
    c = torch.complex(x[0], x[0])
    c[1:].copy_(x.shape[1])
    c[0].copy_(x[0, 1])
    return torch.view_as_real(c)


@scenario
def geometry_in_place(x: torch.Tensor) -> Any:
    y = x.clone()
    z = y.unsqueeze_(0)
    z.squeeze_(0)
    z.t_()
    z[0] = 1
    return y


@scenario
def transpose_in_place(x: torch.Tensor) -> Any:
    y = x.clone()
    y.transpose_(0, 1)
    y[0].zero_()
    return y


@scenario
def narrow(x: torch.Tensor) -> Any:
    y = x.clone()
    y.narrow(1, 1, 2).zero_()
    return y


@scenario
def index_family(x: torch.Tensor) -> Any:
    y = x.clone()
    y.index_fill_(1, torch.tensor([0, 3]), 2.0)
    y.index_add_(0, torch.tensor([0, 0]), x[:2])
    y.index_copy_(1, torch.tensor([4]), x[:, :1])
    return y


@scenario
def loop_writes(x: torch.Tensor) -> Any:
    y = torch.zeros_like(x)
    for i in range(5):
        y[:, i] = x[:, : i + 1].sum(1)
    return y


@scenario
def accumulator_in_a_loop(x: torch.Tensor) -> Any:
    h = x.new_zeros(x.shape[0])
    out = []
    for i in range(5):
        h += x[:, i]
        out.append(h.clone())
    return torch.stack(out, 1)


@scenario
def put(x: torch.Tensor) -> Any:
    y = x.clone()
    y.put_(torch.tensor([1, 3]), torch.tensor([9.0, 10.0]))
    y.masked_scatter_(y > 5, torch.zeros(100))
    return y


@scenario
def swap_rows(x: torch.Tensor) -> Any:
    y = x.clone()
    y[0], y[1] = y[1].clone(), y[0].clone()
    return y


@scenario
def lerp_addcmul(x: torch.Tensor) -> Any:
    y = x.clone()
    y.lerp_(x * 2, 0.5).addcmul_(x, x, value=0.5).addcdiv_(x, x.abs() + 1)
    y[:, 0].clamp_(0, 1)
    return y


@scenario
def sort_out(x: torch.Tensor) -> Any:
    v = torch.empty_like(x)
    i = torch.empty_like(x, dtype=torch.long)
    torch.sort(x, 1, out=(v, i))
    return v, i


@scenario
def frame_of_zeros(x: torch.Tensor) -> Any:
    y = torch.zeros(x.shape[0] + 2, 5)
    y[1:-1] = x
    y[x.shape[0]] = 1
    return y


@scenario
def cumsum(x: torch.Tensor) -> Any:
    y = x.clone()
    y.cumsum_(0)
    y[1:] -= y[:-1].clone()
    return y


@scenario
def addmm(x: torch.Tensor) -> Any:
    y = x.new_zeros(5, 5)
    y.addmm_(x.t(), x, beta=0.5)
    return y


@scenario
def new_axes(x: torch.Tensor) -> Any:
    y = x.clone()
    y[:, None, 1:2] = 0.0
    y[None] = y[None] + 1
    return y


@scenario
def in_a_branch(x: torch.Tensor) -> Any:
    def positive(x: torch.Tensor) -> torch.Tensor:
        y = x.clone()
        y.add_(1)
        y[..., 1] = 3.0
        return y

    def negative(x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        y[:, 1:3].mul_(2)
        return y

    return torch.cond(x.sum() > 0, positive, negative, (x,))


@scenario
def in_a_while_loop(x: torch.Tensor) -> Any:
    def body(i: torch.Tensor, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = x.clone()
        y[:, 0] = i.to(y.dtype)
        y.t()[1].add_(1)
        return i + 1, y

    return while_loop(lambda i, _: i < 3, body, (torch.tensor(0), x))


@scenario
def in_a_scan(x: torch.Tensor) -> Any:
    def combine(carry: torch.Tensor, row: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        following = carry.clone()
        following.add_(row)
        output = following * 2
        output[0] = 0
        return following, output

    return scan(combine, torch.zeros(5), x)


@scenario
def in_a_map(x: torch.Tensor) -> Any:
    def of_row(row: torch.Tensor) -> torch.Tensor:
        y = row.clone()
        y[1:3] = 0
        torch.mul(row[0], 2, out=y[0])
        return y

    return map_over(of_row, x)


class Model(torch.nn.Module):
    def __init__(self, program: Program) -> None:
        super().__init__()
        self.program = program

    def forward(self, x: torch.Tensor) -> Any:
        return self.program(x)


@pytest.mark.parametrize("name", PROGRAMS)
def test_equals_eager(name: str) -> None:
    torch.manual_seed(0)
    model = Model(PROGRAMS[name])
    x = torch.randn(4, 5)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", category=torch.onnx.errors.OnnxExporterWarning)
        program = torch.onnx.export(
            model, (x.clone(),), dynamo=True, dynamic_shapes=({0: "rows"},), verbose=False
        )
    assert program is not None
    onnx.checker.check_model(program.model_proto, full_check=True)
    rows = program.model_proto.graph.input[0].type.tensor_type.shape.dim[0]
    assert rows.dim_param == "rows"
    for example in (x, torch.randn(7, 5), -torch.rand(3, 5), torch.rand(6, 5)):
        expected = torch.utils._pytree.tree_leaves(model(copy.deepcopy(example)))
        torch.testing.assert_close(list(program(example.clone())), expected)
