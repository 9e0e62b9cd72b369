"""Two sizes that broadcast against each other, either of which may be 1 at run time."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import pytest
import torch
from models import routes

Function = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]

# Programs of x [n, 3] and y [m, 3]. Each reads the shape of the result.


def zeros(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    z = x + y
    return z + torch.zeros(z.size(0), 1).cos()


def asks_for_sizes(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    z = x * y
    return torch.ones(2 * z.size(0) + 1, z.size(1)) * z.numel()


def flattened(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return torch.maximum(x, y).reshape(-1)


def viewed(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    z = x - y
    return z.view(z.size(0), 1, 3).transpose(0, 2).contiguous().view(3, z.size(0))


def expanded(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    z = torch.where(x > 0, x, y)
    return y[:1].expand(z.size(0), 3) + z.repeat(2, 1)[: z.size(0)]


def broadcast_tensors(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    a, b = torch.broadcast_tensors(x, y)
    return torch.stack([a, b], dim=1).flatten(0, 1)


def masked_select(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return torch.masked_select(x, y > 0)


def masked_fill(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    z = x.masked_fill(y > 0, -1.0)
    return torch.cat([z, z], dim=0).reshape(2, z.size(0), 3)


def three(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    z = torch.where(x.sum(1, keepdim=True) > 0, x + y, y[:, :1] + x)
    return torch.arange(z.size(0)) + z.sum(1).long()


def batches(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    z = torch.matmul(x.unsqueeze(1), y.unsqueeze(2))
    return torch.ones(z.size(0)) + z.flatten()


def distances(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    z = torch.cdist(x.view(x.size(0), 1, 3), y.view(y.size(0), 3, 1).expand(y.size(0), 3, 3))
    return z.reshape(z.size(0) * 3)


def similarity(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    z = torch.cosine_similarity(x, y, dim=1)
    return torch.zeros(z.size(0), 2) + z.unsqueeze(1)


def indexed(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    z = x[torch.arange(x.size(0)), (y > 0)[:, 0].long()]
    return z.view(1, z.size(0))


def chosen(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    z = torch.stack(torch.broadcast_tensors(x + y, y))
    return z.gather(1, torch.zeros(2, z.size(1), 3, dtype=torch.long))


FUNCTIONS: dict[str, Function] = {
    function.__name__: function
    for function in (
        *(zeros, asks_for_sizes, flattened, viewed, expanded, broadcast_tensors, masked_select),
        *(masked_fill, three, batches, distances, similarity, indexed, chosen),
    )
}

PAIRS = ((4, 4), (1, 4), (4, 1), (1, 1), (2, 2), (2, 1), (1, 0), (0, 1), (0, 0), (7, 7))


def inputs(n: int, m: int) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(n * 10 + m)
    return torch.randn(n, 3, generator=generator), torch.randn(m, 3, generator=generator)


@pytest.mark.parametrize("route", ["trace", "script"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_sizes_of_two_inputs(name: str, route: str) -> None:
    # ONNX Runtime's MatMul does not broadcast a batch of 1 to an empty one.
    pairs = [inputs(*pair) for pair in PAIRS if name != "batches" or 0 not in pair]
    routes.check(FUNCTIONS[name], pairs[0], route, *pairs[1:], dynamic=[{0: "n"}, {0: "m"}])


# x is [1, m, m] and y [4, m, m]: torch.export treats m - 1 and m as different sizes, unless one
# of them is 1.


def shorter_sum(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    z = x[:, :-1] + y
    return torch.zeros(z.size(1), z.size(2)) + z


def shorter_select(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return torch.masked_select(x[:, :-1], y > 0)


@pytest.mark.parametrize("function", [shorter_sum, shorter_select])
@pytest.mark.parametrize("route", ["trace", "script"])
def test_a_size_and_one_less(function: Function, route: str) -> None:
    x, y = torch.randn(1, 2, 2), torch.randn(4, 2, 2)
    names = {1: "m", 2: "m"}
    routes.check(function, (x, y), route, (x[:, :1, :1], y[:, :1, :1]), dynamic=[names, names])


# Data-dependent sizes: torch.export assumes that they are not 1, so they are not 1 here.


def counted(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    z = x[x[:, 0] > 0] + y
    return torch.zeros(z.size(0), 1) + z


def with_rows(counts: tuple[int, ...]) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    for rows, m in itertools.product(counts, counts):
        if rows != m and 1 not in (rows, m):
            continue
        x, y = inputs(rows + 2, m)
        x[:, 0] = torch.tensor([-1.0, *[1.0] * rows, -1.0])
        yield x, y


@pytest.mark.parametrize("route", ["trace", "script"])
def test_sizes_from_data(route: str) -> None:
    first, *others = with_rows((3, 0, 1, 5))
    routes.check(counted, first, route, *others, dynamic=[{0: "n"}, {0: "m"}])


# torch.export records one symbol for both inputs; the model also runs at size 1.


@pytest.mark.parametrize("route", ["fx", "pt2"])
@pytest.mark.parametrize("name", sorted(set(FUNCTIONS) - {"indexed"}))
def test_captured_sizes(name: str, route: str) -> None:
    pairs = [inputs(n, n) for n in (4, 1, 2, 7)]
    routes.check(FUNCTIONS[name], pairs[0], route, *pairs[1:], dynamic=[{0: "n"}, {0: "n"}])
