"""Programs that torch.export captured for sizes of at least 2 also run at size 1."""

from __future__ import annotations

from collections.abc import Callable

import onnx
import pytest
import torch
from models import routes
from torch.nn import functional as F

Function = Callable[[torch.Tensor], object]

SIZES = (7, 1, 2, 3)

# No range: torch.export may narrow it.
ROWS = [{0: torch.export.Dim.DYNAMIC}]

WEIGHT = torch.arange(6.0).reshape(2, 3) / 7


def written_beside_vmap(x: torch.Tensor) -> torch.Tensor:
    y = x * 2
    torch.vmap(torch.relu)(x)
    y[:3] /= -3
    return y


def sized(x: torch.Tensor) -> torch.Tensor:
    """Makes the result depend on the size, not only on the elements."""
    return x.reshape(-1, 1) * torch.ones(1, 2)


# x is [n, 3]. torch.export records each first size as a number, or as its value for n >= 2.
FUNCTIONS: dict[str, Function] = {
    "first_two": lambda x: x[:2] + 1,
    "flattened": lambda x: x[:2].reshape(-1) * 2,
    "joined": lambda x: x[:2].flatten(),
    "sized": lambda x: sized(x[:2]),
    "one": lambda x: x[:1] + x,
    "first_five": lambda x: x[:5].flatten(),
    "last_two": lambda x: x[-2:].flatten(),
    "middle": lambda x: x[1:3].flatten(),
    "of_a_slice": lambda x: x[:3][:2].flatten(),
    "behind": lambda x: x[2:].flatten(),
    "without_last": lambda x: x[:-1].flatten(),
    "every_second": lambda x: x[:3:2].flatten(),
    "all_of_a_slice": lambda x: (x[:2].sum(), x[:2].mean(0), x[:2].amax(0)),
    "selected": lambda x: x[:2][0] + x[:2][-1],
    "chunk": lambda x: x.chunk(2)[0].flatten(),
    "with_all": lambda x: torch.cat([x[:2], x]).flatten(),
    "of_slices": lambda x: torch.cat([x[:2], x[:2]], 1).flatten(),
    "flipped": lambda x: x[:2].flip(0).flatten(),
    "rolled": lambda x: x[:2].roll(1, 0).flatten(),
    "differences": lambda x: torch.diff(x, dim=0).flatten(),
    "differences_of_slice": lambda x: torch.diff(x[:2], dim=0).flatten(),
    "expanded": lambda x: x[:2].unsqueeze(1).expand(-1, 4, -1).flatten(0, 1),
    "repeated": lambda x: x[:2].repeat(2, 1).flatten(),
    "interleaved": lambda x: x[:2].repeat_interleave(2, 0).flatten(),
    "transposed": lambda x: x[:2].t().reshape(-1),
    "squared": lambda x: (x[:2] @ x[:2].t()).flatten(),
    "products": lambda x: torch.einsum("nd,md->nm", x[:2], x).flatten(),
    "linear": lambda x: F.linear(x[:2], WEIGHT).flatten(),
    "normalized": lambda x: F.layer_norm(x[:2], (3,)).flatten(),
    "softmax": lambda x: x[:2].softmax(0).flatten(),
    "sorted": lambda x: x[:2].sort(0).values.flatten(),
    "cumulated": lambda x: x[:2].cumsum(0).flatten(),
    "stacked": lambda x: torch.stack([x[:2], x[:2] * 2]).flatten(),
    "padded": lambda x: F.pad(x[:2], (0, 0, 1, 0)).flatten(),
    "gathered": lambda x: x[:2].gather(0, torch.zeros_like(x[:2]).long()).flatten(),
    "chosen": lambda x: torch.where(x[:2] > 0, x[:2], -x[:2]).flatten(),
    "like": lambda x: torch.zeros_like(x[:2]).flatten() + x[:2].flatten(),
    "new": lambda x: (torch.ones_like(x[:2]).sum(), torch.full_like(x[:2], 3).flatten()),
    "weighted": lambda x: x[:2].unsqueeze(0) * WEIGHT.unsqueeze(1),
    "triangle": lambda x: x[:2].tril().flatten(),
    "diagonal": lambda x: x[:2].diagonal() * 2,
    "pooled": lambda x: F.max_pool1d(x[:2].unsqueeze(0), 2).flatten(),
    "averaged": lambda x: F.adaptive_avg_pool1d(x[:2].unsqueeze(1), 1).flatten(),
    "resized": lambda x: F.interpolate(x[:2].unsqueeze(1), scale_factor=2.0).flatten(),
    "in_place": lambda x: x.clone().index_fill_(0, torch.tensor([0]), 2.0)[:2].flatten(),
    "cut_to_nothing": lambda x: F.conv_transpose2d(
        (x @ x.t()).expand(2, 1, -1, -1), torch.ones(1, 4, 2, 2), padding=1
    ),
    "written_beside_vmap": written_beside_vmap,
    "written": lambda x: (x + 0).narrow(1, 0, 2).copy_(x[:, 1:]).flatten(),
}

ROUTE = pytest.mark.parametrize("route", ["fx", "pt2"])


def inputs(n: int) -> tuple[torch.Tensor]:
    return (torch.randn(n, 3, generator=torch.Generator().manual_seed(n)),)


@ROUTE
@pytest.mark.parametrize("name", FUNCTIONS)
def test_captured(name: str, route: str) -> None:
    every = [inputs(n) for n in SIZES]
    routes.check(FUNCTIONS[name], every[0], route, *every[1:], dynamic=ROWS)


# Programs that eager rejects at size 1 need the recorded number.
CONSTANTS: dict[str, Function] = {
    "unbind": lambda x: torch.add(*x[:2].unbind(0)),
    "split": lambda x: torch.sub(*x[:2].split(1)),
    "chunk": lambda x: torch.sub(*x[:2].chunk(2)),
    "narrow": lambda x: x.narrow(0, 0, 2).flatten(),
    "index": lambda x: x[:2][1] + x[1],
    "reshaped": lambda x: x[:2].reshape(2, 3) + x[:2].view(6, 1).sum(),
    "unfold": lambda x: x[:3].unfold(0, 2, 1).flatten(),
    "channels": lambda x: F.conv1d(x[:2].unsqueeze(0), torch.ones(4, 2, 2)).flatten(),
    "grouped": lambda x: F.group_norm(x[:2].unsqueeze(0), 2).flatten(),
    "batch_norm": lambda x: F.batch_norm(
        x[:2].unsqueeze(0), torch.zeros(2), torch.ones(2), torch.ones(2), torch.ones(2)
    ),
    "shuffled": lambda x: F.pixel_shuffle(x[:4].reshape(1, 4, 1, 3), 2).flatten(),
    "tuple": lambda x: torch.stack(list(x[:3])).sum(0),
}


@pytest.mark.parametrize(
    ("name", "route"),
    [
        (n, r)
        for n in CONSTANTS
        for r in ("fx", "pt2")
        if r == "pt2" or n not in ("unbind", "tuple")
    ],
)
def test_constants_where_they_are_needed(name: str, route: str) -> None:
    every = [inputs(n) for n in (7, 4, 5)]
    routes.check(CONSTANTS[name], every[0], route, *every[1:], dynamic=ROWS)


# torch.onnx.export captures min(2, n) for x[:2], so the number of rows is not constant.
UNCOUNTED = ("unbind", "tuple")


@pytest.mark.parametrize("name", UNCOUNTED)
def test_rows_that_the_capture_does_not_count_are_refused(name: str) -> None:
    with pytest.raises(torch.onnx.errors.OnnxExporterError, match="unbind a dimension whose"):
        routes.export(CONSTANTS[name], inputs(7), "fx", ROWS)


def operators(model: onnx.ModelProto) -> list[str]:
    return [node.op_type for node in model.graph.node]


@ROUTE
def test_no_more_nodes_than_for_constants(route: str) -> None:
    def first_two(x: torch.Tensor) -> torch.Tensor:
        return (x[:2] * 2).relu().t().reshape(3, -1)

    model = routes.export(first_two, inputs(7), route, ROWS)
    assert operators(model) == ["Slice", "Mul", "Relu", "Transpose"]
    assert model.graph.output[0].type.tensor_type.shape.dim[1].dim_param.startswith("min(2, ")
