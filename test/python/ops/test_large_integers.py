"""Integers beyond 2**31 and 2**53, where some of ONNX Runtime's kernels are wrong."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from models import routes

NUMBERS = torch.tensor(
    [
        *(0, 1, 2, 5, -1, -2, 2**31 - 1, 2**31, 2**31 + 1, 2**32 - 1, 2**32, 2**40 + 3),
        *(2**53 + 1, 2**62, 2**63 - 1, -(2**31), -(2**31) - 1, -(2**32) - 7, -(2**40)),
        -(2**63) + 1,
    ]
)
EXTREMES: dict[str, Callable[..., Any]] = {
    "maximum": torch.maximum,
    "minimum": torch.minimum,
    "clamp": lambda x, y: torch.clamp(x, 3, 2**31),
    "clamp by one": lambda x, y: torch.clamp(x, min=0),
    "clamp by int64": lambda x, y: torch.clamp(x, -1, 2**63 - 1),
    "clamp beyond float64": lambda x, y: torch.clamp(x, -(2**53) - 1, 2**53 + 1),
    "clamp by tensors": lambda x, y: torch.clamp(x, y, y + 1),
    "relu": lambda x, y: torch.relu(x),
    "amax": lambda x, y: (x.amax(), x.amax(0), x.amax((0, 2)), x.amax(1, keepdim=True)),
    "amin": lambda x, y: (x.amin(), x.amin(0), x.amin((0, 2)), x.amin(1, keepdim=True)),
    "max": lambda x, y: (x.max(), *x.max(1), *x.max(-1, keepdim=True)),
    "min": lambda x, y: (x.min(), *x.min(1), *x.min(-1, keepdim=True)),
    "aminmax": lambda x, y: tuple(torch.aminmax(x, dim=1)),
    "sign": lambda x, y: torch.sign(x),
    "fmod": lambda x, y: torch.fmod(x, y.abs() + 3),
    "scatter amax": lambda x, y: x.scatter_reduce(1, (y % 3).abs(), y, "amax"),
    "cummax": lambda x, y: tuple(torch.cummax(x, 1)),
    "sort": lambda x, y: torch.sort(x, dim=1)[0],
    "topk": lambda x, y: torch.topk(x, 2, dim=1)[0],
    "argmax": lambda x, y: x.flatten().argmax() * 0 + x.flatten()[x.flatten().argmax()],
}
SUMS: dict[str, Callable[..., Any]] = {
    "sum": lambda x: (x.sum(), x.sum(0), x.sum((0, 2)), x.sum((0, 2), keepdim=True), x.sum(-1)),
    "sum of int32": lambda x: x.to(torch.int32).sum(1, dtype=torch.int32),
    "sum of int8": lambda x: x.to(torch.int8).sum(1),
    "sum as int16": lambda x: x.sum(1, dtype=torch.int16),
    "prod": lambda x: (x.prod(), x.prod(0), x.prod(1), x.prod(2, keepdim=True)),
    "prod of int32": lambda x: x.to(torch.int32).prod(1, dtype=torch.int32),
    "cumsum": lambda x: x.cumsum(1),
    "cumprod": lambda x: x.cumprod(1),
    "einsum": lambda x: torch.einsum("abc,abd->acd", x, x),
    "matmul": lambda x: x @ x.transpose(1, 2),
    "trace": lambda x: torch.trace(x[0]),
    "diff": lambda x: torch.diff(x, dim=1),
    "index_add": lambda x: x.index_add(0, torch.tensor([0, 0]), x),
    "scatter_add": lambda x: x.scatter_add(1, torch.zeros_like(x), x),
    "count": lambda x: (x > 0).sum(1),
}


def numbers(*shape: int, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return NUMBERS[torch.randint(len(NUMBERS), shape, generator=generator)]


@pytest.mark.parametrize("route", ["fx", "pt2", "trace"])
def test_extremes(route: str) -> None:
    def function(x: torch.Tensor, y: torch.Tensor) -> tuple[Any, ...]:
        return tuple(operator(x, y) for operator in EXTREMES.values())

    sets = [(numbers(n, 7, 9, seed=n), numbers(n, 7, 9, seed=n + 1)) for n in (2, 5, 1)]
    sizes = ({0: "n"}, {0: "n"})
    routes.check(function, sets[0], route, *sets[1:], dynamic=sizes)


@pytest.mark.parametrize("route", ["fx", "pt2", "trace"])
def test_sums(route: str) -> None:
    def function(x: torch.Tensor) -> tuple[Any, ...]:
        return tuple(operator(x) for operator in SUMS.values())

    routes.check(function, (numbers(2, 9, 5),), route, (numbers(2, 9, 5, seed=3),))


@pytest.mark.parametrize("route", ["fx", "trace"])
@pytest.mark.parametrize("opset", [11, 12, 17, None])
def test_dynamic_sums(route: str, opset: int | None) -> None:
    def function(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return x.sum(0), x.sum(), x.sum(1), x.prod(0), x.prod(1), x.prod()

    others = [(numbers(n, m, seed=n),) for n, m in ((1, 30), (12, 1), (0, 3), (3, 2))]
    routes.check(
        function, (numbers(4, 5),), route, *others, dynamic=({0: "n", 1: "m"},), opset=opset
    )


@torch.jit.script
def scripted(x: torch.Tensor, n: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, int, int]:
    return x.sum(), x.clamp(0, n), x.amax(0), max(n, 0), min(n, 5)


def test_scripted() -> None:
    x = numbers(4, 5)
    program = torch.onnx.export(scripted, (x, 7), dynamo=True, verbose=False)
    assert program is not None
    running = routes.session(program.model_proto)
    names = [argument.name for argument in running.get_inputs()]
    for n in (2**31, 3, -(2**40), 2**33 + 1) if len(names) == 2 else (7,):
        expected = scripted(x, n)
        feeds = {names[0]: x.numpy(), **dict.fromkeys(names[1:], torch.tensor(n).numpy())}
        for result, wanted in zip(running.run(None, feeds), expected, strict=True):
            routes.assert_same(torch.as_tensor(result), torch.as_tensor(wanted))


def test_integers_of_data() -> None:
    def function(x: torch.Tensor, k: torch.Tensor) -> tuple[torch.Tensor, ...]:
        n = k.item()
        return x * max(n, 0), x + min(n, 5), x - max(n, 2**31 - 5)

    others = [(torch.tensor([2, 3]), torch.tensor(n)) for n in (2**31, -(2**33), 2**32 - 1, 0)]
    routes.check(function, (torch.tensor([2, 3]), torch.tensor(4)), "fx", *others)


LOSSES: dict[str, Callable[..., torch.Tensor]] = {
    "pairwise_distance": F.pairwise_distance,
    "triplet": lambda x, y: F.triplet_margin_loss(x, y, y + 1),
    "margin_ranking": lambda x, y: F.margin_ranking_loss(x, y, x - 1, margin=0.5),
    "cosine_embedding": lambda x, y: F.cosine_embedding_loss(x, y, x[:, 0].sign() * 2 - 1),
}


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int64], ids=str)
@pytest.mark.parametrize("name", LOSSES)
def test_losses(name: str, dtype: torch.dtype) -> None:
    """Integers are subtracted and multiplied without casts."""
    generator = torch.Generator().manual_seed(0)
    x, y = (torch.randint(-128, 128, (5, 4), generator=generator).to(dtype) for _ in range(2))
    routes.check(LOSSES[name], (x, y), "trace")
