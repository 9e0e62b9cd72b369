"""Dtypes of einsum: eager contracts pairwise, and integer sums are int64."""

import itertools
from collections.abc import Callable
from typing import Any

import pytest
import torch
from models import routes
from torch import nn

NARROW = (torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)
FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
# Equations and the sizes of their operands.
SUMS: dict[str, tuple[tuple[int, ...], ...]] = {
    "ij->i": ((2, 3),),
    "ii->": ((3, 3),),
    "ij->j": ((1, 3),),
    "ij->": ((0, 3),),
    "ij->ji": ((2, 3),),
    "ii->i": ((3, 3),),
    "...j->...": ((2, 2, 3),),
    "ij,k->k": ((2, 3), (4,)),
    "ij,j->ij": ((2, 3), (3,)),
    "i,j->ij": ((3,), (4,)),
    "i,j,k->": ((2,), (3,), (4,)),
    "i,i,i->i": ((2,), (2,), (2,)),
    "ij,ij->ij": ((2, 1), (1, 3)),
    "...i,j->...": ((2, 3), (4,)),
}
PRODUCTS: dict[str, tuple[tuple[int, ...], ...]] = {
    "ij,jk->ik": ((2, 3), (3, 4)),
    "ij,jk": ((2, 1), (3, 4)),
    "i,i->": ((3,), (3,)),
    "ij,jk,kl->il": ((2, 3), (3, 4), (4, 2)),
    "i,i,j->": ((4,), (4,), (3,)),
    "i,i,j,j->": ((4,), (4,), (3,), (3,)),
    "ii,ij->j": ((3, 3), (3, 2)),
    "...ij,...jk->...ik": ((2, 1, 2, 3), (5, 3, 4)),
    "ij,jk->ki": ((2, 0), (0, 4)),
    ",->": ((), ()),
}


def operand(dtype: torch.dtype, sizes: tuple[int, ...], seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    if dtype.is_floating_point:
        return torch.randn(sizes, generator=generator).to(dtype)
    return torch.randint(-90, 100, sizes, generator=generator).to(dtype)


def all_of(equations: dict[str, tuple[tuple[int, ...], ...]]) -> Callable[..., Any]:
    """Returns one program with the einsums of all equations."""

    def function(*tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        left = list(tensors)
        results = []
        for equation, sizes in equations.items():
            results.append(torch.einsum(equation, left[: len(sizes)]))
            left = left[len(sizes) :]
        return tuple(results)

    return function


def operands(
    equations: dict[str, tuple[tuple[int, ...], ...]], *dtypes: torch.dtype
) -> tuple[torch.Tensor, ...]:
    """Cycles through the dtypes for each equation."""
    return tuple(
        operand(dtype, sizes, seed)
        for of_one in equations.values()
        for seed, (sizes, dtype) in enumerate(zip(of_one, itertools.cycle(dtypes), strict=False))
    )


@pytest.mark.parametrize("route", ["fx", "pt2", "trace"])
@pytest.mark.parametrize("dtype", NARROW + FLOATS, ids=str)
def test_dtypes(dtype: torch.dtype, route: str) -> None:
    # Eager has no batched products of bool.
    equations = SUMS if dtype is torch.bool else SUMS | PRODUCTS
    routes.check(all_of(equations), operands(equations, dtype), route)


@pytest.mark.parametrize("route", ["fx", "trace"])
@pytest.mark.parametrize(
    "dtypes",
    [
        (torch.bool, torch.int8),
        (torch.uint8, torch.int8),
        (torch.int32, torch.int64),
        (torch.int64, torch.float16),
        (torch.float64, torch.float32),
        (torch.bfloat16, torch.float32),
        (torch.int8, torch.complex64),
    ],
    ids=str,
)
def test_mixed_dtypes(dtypes: tuple[torch.dtype, ...], route: str) -> None:
    several = {equation: sizes for equation, sizes in SUMS.items() if len(sizes) > 1}
    routes.check(all_of(several), operands(several, *dtypes), route)


@pytest.mark.parametrize("route", ["fx", "trace"])
def test_pairs_of_different_dtypes(route: str) -> None:
    """The dtype follows from the pairs, in their order or in that of the path."""
    i, j = (operand(dtype, (4,)) for dtype in (torch.int8, torch.int32))

    def function(i: torch.Tensor, j: torch.Tensor) -> tuple[torch.Tensor, ...]:
        einsum = torch.ops.aten.einsum
        return (
            einsum("i,i,j,j->", [i, i, j, j]),
            einsum("i,j,i,j->", [i, j, i, j], path=[0, 2, 0, 1, 0, 1]),
            einsum("i,i,j->j", [i, i, j]),
            einsum("i,i,j->", [i, i, j]),
        )

    routes.check(function, (i, j), route)


def test_products_of_different_dtypes_are_refused() -> None:
    """As in eager, which has no such kernel; TorchScript can still contain the call."""

    def product(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.einsum("ij,jk->ik", x, y)

    inputs = (operand(torch.int8, (2, 3)), operand(torch.int32, (3, 4)))
    with pytest.raises(
        torch.onnx.OnnxExporterError, match="expected scalar type Char but found Int"
    ):
        routes.export(product, inputs, "script")


def sums(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    return (
        torch.einsum("ij->i", x),
        torch.einsum("ij,jk->ki", x, y),
        torch.einsum("ij,kl->", x, y),
    )


@pytest.mark.parametrize("opset", [11, 12, None])
@pytest.mark.parametrize("route", routes.ROUTES)
@pytest.mark.parametrize("dtype", [torch.uint8, torch.int32, torch.float32], ids=str)
def test_dynamic_sizes(dtype: torch.dtype, route: str, opset: int | None) -> None:
    x, y = operand(dtype, (5, 3)), operand(dtype, (3, 4), 1)
    routes.check(sums, (x, y), route, (x[:1], y), (x[:0], y), dynamic=({0: "n"}, {}), opset=opset)


class SumsOneProduct(nn.Module):
    """Sums over an axis of size 1 beside one that may be empty."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        part = x[-2:2, 2::2]
        return torch.einsum("ijk,ijl", part, part)


def test_a_sum_of_one_product_is_no_axis() -> None:
    """ONNX Runtime's FusedMatMul divides by the size of an empty axis if there is a batch."""
    program = torch.onnx.export(
        SumsOneProduct(),
        (torch.ones(5, 4, 3),),
        dynamo=True,
        verbose=False,
        dynamic_shapes=({0: "n"},),
    )
    assert all(len(value.shape) == 2 for value in program.model.graph.outputs)
    operators = [node.op_type for node in program.model.graph]
    assert "ReduceSum" not in operators
    for n in (5, 3, 2):
        x = torch.rand(n, 4, 3)
        torch.testing.assert_close(program(x)[0], SumsOneProduct()(x))
