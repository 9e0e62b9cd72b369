"""Native capture of programs that read the number of groups, or of elements, from a tensor."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from models.recording import assert_equal_to_eager, assert_recorded, exported, reason_of
from torch import nn
from torch.nn import functional as F

Function = Callable[[torch.Tensor, torch.Tensor], Any]


class Calls(nn.Module):
    def __init__(self, function: Function) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> Any:
        return self.function(x, y)


def nodes(count: int, groups: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Nodes, and the group of each; every group has one."""
    generator = torch.Generator().manual_seed(count)
    rest = torch.randint(0, groups, (count - groups,), generator=generator)
    index = torch.cat((torch.arange(groups), rest)).sort().values
    return torch.randn(count, 4, generator=generator), index


# After torch_geometric.


def broadcast(index: torch.Tensor, to: torch.Tensor, dim: int) -> torch.Tensor:
    return index.view((1,) * dim + (-1,) + (1,) * (to.dim() - dim - 1)).expand_as(to)


def scatter(
    x: torch.Tensor, index: torch.Tensor, dim: int, size: int | None, reduce: str
) -> torch.Tensor:
    dim = x.dim() + dim if dim < 0 else dim
    if size is None:
        size = int(index.max()) + 1 if index.numel() > 0 else 0
    shape = (*x.size()[:dim], size, *x.size()[dim + 1 :])
    places = broadcast(index, x, dim)
    if reduce in ("amin", "amax"):
        return x.new_zeros(shape).scatter_reduce_(dim, places, x, reduce, include_self=False)
    total = x.new_zeros(shape).scatter_add_(dim, places, x)
    if reduce == "sum":
        return total
    count = x.new_zeros(size).scatter_add_(0, index, x.new_ones(x.size(dim)))
    return total / broadcast(count.clamp(min=1), total, dim)


def scattered(x: torch.Tensor, group: torch.Tensor) -> Any:
    kinds = ("sum", "mean", "amax", "amin")
    first = [scatter(x, group, 0, None, kind) for kind in kinds]
    return first, [scatter(x.t(), group, -1, None, kind) for kind in kinds]


def softmax(x: torch.Tensor, group: torch.Tensor) -> torch.Tensor:
    count = group.max().item() + 1
    top = scatter(x, group, 0, count, "amax")
    power = (x - top.index_select(0, group)).exp()
    total = scatter(power, group, 0, count, "sum") + 1e-16
    return power / total.index_select(0, group)


def instance_norm(x: torch.Tensor, group: torch.Tensor) -> torch.Tensor:
    groups = int(group.max()) + 1
    count = torch.bincount(group, minlength=groups).to(x.dtype).clamp_(min=1).view(-1, 1)
    mean = scatter(x, group, 0, groups, "sum") / count
    centered = x - mean.index_select(0, group)
    variance = scatter(centered * centered, group, 0, groups, "sum") / count
    return centered / (variance + 1e-5).sqrt().index_select(0, group)


def dense_batch(x: torch.Tensor, group: torch.Tensor) -> Any:
    groups = int(group.max()) + 1
    count = group.new_zeros(groups).scatter_add_(0, group, torch.ones_like(group))
    first = torch.cat([count.new_zeros(1), count.cumsum(0)])
    longest = int(count.max())
    places = torch.arange(group.size(0)) - first[group] + group * longest
    dense = x.new_zeros(groups * longest, 4)
    dense[places] = x
    mask = torch.zeros(groups * longest, dtype=torch.bool)
    mask[places] = True
    return dense.view(groups, longest, 4), mask.view(groups, longest)


def first_nodes(x: torch.Tensor, group: torch.Tensor) -> Any:
    groups = int(group.max()) + 1
    first = group.new_zeros(groups + 1)
    first[1:] = torch.bincount(group, minlength=groups).cumsum(0)
    return first, x[first[:-1]]


def message_passing(x: torch.Tensor, group: torch.Tensor) -> Any:
    source, target = group, group.flip(0)
    count = max(int(source.max()), int(target.max())) + 1
    degree = torch.zeros(count).scatter_add_(0, target, torch.ones(target.size(0)))
    weight = degree.pow(-0.5)
    weight[weight == float("inf")] = 0
    return weight[source] * weight[target], torch.zeros(count, 4).index_add_(0, target, x)


def layers_of_groups(x: torch.Tensor, group: torch.Tensor) -> Any:
    groups = int(group.max()) + 1
    y = torch.zeros(groups, 4).index_add_(0, group, x)
    hot = F.one_hot(group, groups).to(x.dtype)
    return (
        F.linear(y, torch.arange(12.0).view(3, 4)),
        y.reshape(groups, 2, 2).softmax(1),
        x.new_full((groups, 2), groups),
        x[:1].expand(groups, 4),
        hot.t() @ x / hot.sum(0)[:, None],
        F.one_hot(group),
        torch.bincount(group),
        torch.bincount(group, minlength=4),
        groups,
    )


@pytest.mark.parametrize(
    "function",
    [
        scattered,
        softmax,
        instance_norm,
        dense_batch,
        first_nodes,
        message_passing,
        layers_of_groups,
    ],
)
def test_the_number_of_groups(function: Function) -> None:
    sizes = ((6, 2), (1, 1), (3, 3), (12, 5), (7, 1))
    examples = [nodes(count, groups) for count, groups in sizes]
    assert_recorded(Calls(function), ({0: "nodes"}, {0: "nodes"}), *examples)


# Numbers that must not exceed a size, or that must be another one.


def counted(x: torch.Tensor) -> int:
    return int((x[:, 0] > 0).sum())


def halves(x: torch.Tensor, _: torch.Tensor) -> Any:
    count = counted(x)
    first, second = x.split([count, x.shape[0] - count])
    return first * 2, second.sum(0)


def padded(x: torch.Tensor, _: torch.Tensor) -> Any:
    kept = x[x[:, 0] > 0]
    return torch.cat([kept, x.new_ones(20 - kept.shape[0], 4)])


def largest(x: torch.Tensor, _: torch.Tensor) -> Any:
    return x[:, 0].topk(counted(x)).values


def repeated(x: torch.Tensor, y: torch.Tensor) -> Any:
    count = int(y.sum())
    return x.repeat_interleave(y, 0, output_size=count) + torch.arange(count)[:, None]


def masked(x: torch.Tensor, y: torch.Tensor) -> Any:
    longest = int(y.max())
    mask = torch.arange(longest)[None] < y[:, None]
    return x[:, :longest].masked_fill(mask, 7.0), x[:, :longest] * mask


def rows(count: int, sign: float) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(count)
    x = torch.randn(count, 4, generator=generator)
    return (x.abs() * sign if sign else x), torch.randint(0, 5, (count,), generator=generator)


@pytest.mark.parametrize("function", [halves, padded, largest, repeated, masked])
def test_a_number_within_a_size(function: Function) -> None:
    examples = [rows(6, 0), rows(3, 1), rows(4, -1), rows(9, 0), rows(1, 0), rows(1, 1)]
    assert_recorded(Calls(function), ({0: "n"}, {0: "n"}), *examples)


def image(x: torch.Tensor, y: torch.Tensor) -> Any:
    height, width = y.tolist()
    return x.view(height, width, 4).permute(2, 0, 1), x.reshape(1, height, width, 4) * 2


def test_a_view_as_the_numbers_say() -> None:
    examples = [
        (torch.randn(height * width, 4), torch.tensor([height, width]))
        for height, width in ((3, 2), (2, 2), (1, 5), (6, 1), (4, 7))
    ]
    program = assert_recorded(Calls(image), ({0: "n"}, None), *examples)
    assert program.export_report["capture"]["guards"] == []


def grids(pixels: torch.Tensor, grid: torch.Tensor) -> Any:
    places = []
    for height, width in grid.tolist():
        y = torch.arange(height)[:, None].expand(height, width)
        y = y.reshape(height // 2, 2, width // 2, 2).permute(0, 2, 1, 3).flatten()
        x = torch.arange(width)[None].expand(height, width)
        x = x.reshape(height // 2, 2, width // 2, 2).permute(0, 2, 1, 3).flatten()
        places.append(torch.stack((y, x), -1))
    angle = torch.cat(places).repeat(1, 2) * 0.1
    bounds = F.pad((grid[:, 0] * grid[:, 1]).cumsum(0), (1, 0))
    of = torch.searchsorted(bounds[1:], torch.arange(pixels.shape[0]), right=True)
    q = pixels * angle.cos() + pixels.flip(1) * angle.sin()
    mask = of[:, None] == of[None]
    return F.scaled_dot_product_attention(q[None], q[None], pixels[None], attn_mask=mask), angle


def images(*sizes: tuple[int, int]) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randn(sum(h * w for h, w in sizes), 4), torch.tensor(sizes)


def test_grids_of_a_fixed_number_of_images() -> None:
    examples = [
        images((4, 2), (2, 6)),
        images((2, 2), (2, 2)),
        images((8, 4), (2, 4)),
        images((2, 4), (6, 10)),
    ]
    with pytest.warns(UserWarning, match="valid only where"):
        assert_recorded(Calls(grids), ({0: "patches"}, None), *examples)


def test_grids_of_any_number_of_images() -> None:
    first = images((4, 2), (2, 6))
    others = images((8, 4)), images((8, 4), (2, 4), (2, 2)), images(*[(4, 2)] * 9)
    with pytest.warns(UserWarning, match=r"u\d+ == 1 or u\d+ == patches"):
        program = exported(Calls(grids), first, ({0: "patches"}, {0: "images"}))
    assert_equal_to_eager(program, Calls(grids), first, *others)
    assert program.export_report["capture"]["rolled"]


def kept_beside_four(x: torch.Tensor, _: torch.Tensor) -> Any:
    y = x[:, 0][x[:, 0] > 0] + torch.ones(4)  # one number is broadcast
    return y, x * y.shape[0], y.view(2, 2)


def test_a_count_that_must_be_a_number_of_elements() -> None:
    examples = [rows(4, 1), rows(1, 1)]
    with pytest.warns(UserWarning, match=r"u0 == 1 or u0 == 4"):
        program = assert_recorded(Calls(kept_beside_four), ({0: "n"}, {0: "n"}), *examples)
    for x, y in (rows(3, 1), rows(6, 1), rows(3, -1)):
        with pytest.raises(Exception, match=r"Add|broadcast"):
            program(x, y)


def kept_beside_as_many(x: torch.Tensor, y: torch.Tensor) -> Any:
    mask = x[:, 0] > 0
    torch._check(mask.nonzero().shape[0] == y.shape[0])
    return x[mask] + y


def test_a_count_that_the_program_asserts() -> None:
    x = torch.tensor([[1.0, 2.0], [-1.0, 3.0], [4.0, 5.0]])
    examples = [(x, torch.randn(2, 2)), (x.abs(), torch.randn(3, 2)), (-x[:1], torch.randn(0, 2))]
    program = assert_recorded(Calls(kept_beside_as_many), ({0: "n"}, {0: "m"}), *examples)
    assert program.export_report["capture"]["guards"] == []
    with pytest.raises(Exception, match=r"Add|broadcast"):
        program(x, torch.randn(3, 2))


# Branches and loops.


def branch_on_a_count(x: torch.Tensor, _: torch.Tensor) -> Any:
    count = counted(x)
    if count == 0:
        return x.new_zeros(1, 4)
    return x[x[:, 0] > 0].mean(0, keepdim=True) * (2 if count in (1, 3) else 1)


def loop_of_a_count(x: torch.Tensor, _: torch.Tensor) -> Any:
    total = x.sum()
    for _ in range(counted(x)):
        total = total * 2
    return total


def item_of_a_list(x: torch.Tensor, _: torch.Tensor) -> Any:
    return x * [0.5, 1.5, 2.5, 3.5, 4.5, 5.5, 6.5][counted(x)]


def item_of_a_dict(x: torch.Tensor, _: torch.Tensor) -> Any:
    return x * {0: 1.0, 1: 3.0}.get(counted(x), 7.0)


def text_of_a_count(x: torch.Tensor, _: torch.Tensor) -> Any:
    return x * float(f"{counted(x)}")


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (branch_on_a_count, "branches on a number that depends on data"),
        (loop_of_a_count, "a Python int or a loop needs the number"),
        (item_of_a_list, "a Python int or a loop needs the number"),
        (item_of_a_dict, "__hash__ of a SymInt"),
        (text_of_a_count, "text made of a size needs the number"),
    ],
)
def test_a_number_that_the_program_needs(function: Function, reason: str) -> None:
    shapes = ({0: "n"}, {0: "n"})
    assert reason in reason_of(Calls(function), rows(6, 0), shapes)
