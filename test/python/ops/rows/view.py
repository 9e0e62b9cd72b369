"""Rows of csrc/ops/tensor/view.cpp."""

import math
from typing import Any

import torch

from ops.row import Case, Row, bools, floats, integers

aten = torch.ops.aten

DTYPES = ("float32", "bool")


def shapes(x: torch.Tensor) -> list[torch.Tensor]:
    """Reshapes of a [?, 4, 6] tensor that have no OpInfo."""
    return [
        aten.view(x, [-1, 24]) + 1,
        aten._unsafe_view(x, [x.shape[0] * 2, 12]) + 1,
        aten.view_copy(x, [-1, 2, 12]),
        aten.view_as(x, x.permute(0, 1, 2)),
        aten.reshape_as(x.transpose(1, 2), x),
        aten.unflatten.int(x, -1, [2, -1]),
        aten.flatten.using_ints(x, 1, -1),
        aten.ravel(x),
        aten.contiguous(x.transpose(0, 1)),
    ]


def permutations(x: torch.Tensor) -> list[torch.Tensor]:
    """All ways to permute dimensions."""
    return [
        aten.transpose.int(x, 0, -1),
        aten.transpose_copy.int(x, 1, 2),
        aten.swapaxes(x, -2, 0),
        aten.swapdims(x, 0, 1),
        aten.t(x[:, 0]),
        aten.t_copy(x[:, 0]),
        aten.mT(x),
        aten.mH(x),
        aten.adjoint(x),
        aten.matrix_H(x[0]),
        aten.numpy_T(x),
        aten.permute(x, [2, 0, -2]),
        aten.permute_copy(x, [1, 2, 0]),
        aten.movedim.intlist(x, [0, -1], [1, 0]),
        aten.movedim.int(x, 0, -1),
        aten.moveaxis.intlist(x, [2], [0]),
        aten.moveaxis.int(x, -1, 1),
    ]


def of_zero_dim(x: torch.Tensor) -> list[torch.Tensor]:
    """Views of a 0-D tensor."""
    return [
        aten.transpose.int(x, 0, -1) + 1,
        aten.t(x) + 1,
        aten.numpy_T(x) + 1,
        aten.squeeze(x) + 1,
        aten.squeeze.dim(x, -1) + 1,
        aten.unsqueeze(x, -1),
        aten.movedim.int(x, 0, -1) + 1,
        aten.permute(x, []) + 1,
        aten.view(x, [1, -1]),
        aten.flatten.using_ints(x),
        aten.expand(x, [2, 3]),
        aten.repeat(x, [2, 2]),
        aten.tile(x, [3]),
    ]


def broadcasts(x: torch.Tensor, y: torch.Tensor) -> list[torch.Tensor]:
    """All ways to broadcast a [?, 1, 2] and a [5, 1] tensor."""
    return [
        aten.expand(x, [2, -1, 3, -1]),
        aten.expand_copy(x, [-1, 5, 2]),
        aten.broadcast_to(y, [3, 5, 2]),
        aten.expand_as(y, x[:1] + y),
        *aten.broadcast_tensors([x, y]),
        aten.repeat(x, [2, 1, 3, 1]),
        aten.tile(x, [2, 3]),
        aten.tile(y, [2, 1, 1, 3]),
    ]


def overwritten(x: torch.Tensor, y: torch.Tensor) -> list[torch.Tensor]:
    """Replaces the contents of a tensor."""
    return [
        aten.copy(x, y),
        aten.fill.Scalar(x, 2.7),
        aten.fill.Tensor(x, torch.tensor(3)),
        aten.zero(x),
    ]


def squeezed(x: torch.Tensor) -> list[torch.Tensor]:
    """Removes and adds dimensions of a [?, 1, 6, 1] tensor."""
    return [
        aten.squeeze(x),
        aten.squeeze_copy(x),
        aten.squeeze.dim(x, 1),
        aten.squeeze.dim(x, 2),
        aten.squeeze_copy.dim(x, -1),
        aten.squeeze_copy.dims(x, [0, -1]),
        aten.squeeze.dims(x, [1, 2, -1]),
        aten.unsqueeze(x, 0),
        aten.unsqueeze_copy(x, -2),
    ]


def at_least(x: torch.Tensor) -> list[torch.Tensor]:
    """Inputs of every rank."""
    found = []
    for y in (x, x[0], x[0, 0], x[0, 0, 0]):
        found += [aten.atleast_1d(y) + 1, aten.atleast_2d(y) + 1, aten.atleast_3d(y) + 1]
    several = [x, x[0, 0], x[0, 0, 0]]
    for of_list in (aten.atleast_1d, aten.atleast_2d, aten.atleast_3d):
        found += [y + 1 for y in of_list.Sequence(several)]
    return found


FLOATS = {
    torch.float16: torch.int16,
    torch.bfloat16: torch.int16,
    torch.float32: torch.int32,
    torch.float64: torch.int64,
}


def irregular(dtype: torch.dtype) -> torch.Tensor:
    """Numbers at the limits of a format, and their neighbors."""
    info = torch.finfo(dtype)
    unit = info.smallest_normal * info.eps  # the smallest number
    numbers = [0.0, 1.0, 2.0, 3.0, 0.1, 1000.0, info.max, info.smallest_normal, unit, 3 * unit]
    numbers += [1 - info.eps / 2, 4 * (1 - info.eps / 2), info.smallest_normal - unit, math.inf]
    positive = torch.tensor(numbers, dtype=torch.float64).to(dtype)
    nan = torch.full((4,), math.nan, dtype=dtype)
    return torch.cat([positive, -positive, nan]).view(4, 8)


def bits_and_back(x: torch.Tensor) -> Any:
    bits = aten.view.dtype(x, FLOATS[x.dtype])
    return bits, aten.view.dtype(bits, x.dtype), aten.view.dtype(bits ^ 1, x.dtype)


def parts_and_back(x: torch.Tensor) -> Any:
    parts = [aten.view.dtype(x, dtype) for dtype in (torch.uint8, torch.int16)]
    wide = aten.view.dtype(x, torch.float64)
    return *parts, *(aten.view.dtype(part, x.dtype) for part in (*parts, wide))


def bits_of_constants(x: torch.Tensor) -> Any:
    constant = torch.tensor([[1.5, -2.0], [0.0, math.nan]])
    dtypes = (torch.int32, torch.uint8, torch.int16, torch.float64)
    return x + 1, [aten.view.dtype(constant, dtype) for dtype in dtypes]


ROWS = [
    Row(
        "aten::reshape",
        opinfo="reshape",
        dtypes=DTYPES,
        cases=(Case(lambda x: x.reshape(-1, 2), floats(3, 4)),),
    ),
    Row(
        (
            "aten::view",
            "aten::_unsafe_view",
            "aten::view_copy",
            "aten::view_as",
            "aten::reshape_as",
            "aten::unflatten.int",
            "aten::flatten.using_ints",
            "aten::ravel",
            "aten::contiguous",
        ),
        name="shapes",
        cases=(
            Case(shapes, floats(3, 4, 6)),
            Case(shapes, integers(2, 4, 6, dtype=torch.int32)),
            Case(lambda x: (aten.view(x, [0, 5]), aten.view(x, [3, -1])), torch.zeros(3, 0)),
        ),
    ),
    Row(
        "aten::view",
        name="view of OpInfo",
        opinfo="view",
        dtypes=("float32",),
        static="sizes are constants",
    ),
    Row("aten::unflatten.int", name="unflatten", opinfo="unflatten", dtypes=("float32",)),
    Row("aten::flatten.using_ints", name="flatten", opinfo="flatten", dtypes=("float32",)),
    Row(
        (
            "aten::squeeze",
            "aten::squeeze_copy",
            "aten::squeeze.dim",
            "aten::squeeze_copy.dim",
            "aten::squeeze_copy.dims",
            "aten::squeeze.dims",
            "aten::unsqueeze",
            "aten::unsqueeze_copy",
        ),
        name="squeezes",
        cases=(Case(squeezed, floats(3, 1, 6, 1)), Case(squeezed, bools(3, 1, 6, 1))),
    ),
    Row(
        (
            "aten::transpose.int",
            "aten::transpose_copy.int",
            "aten::swapaxes",
            "aten::swapdims",
            "aten::t",
            "aten::t_copy",
            "aten::mT",
            "aten::mH",
            "aten::adjoint",
            "aten::matrix_H",
            "aten::numpy_T",
            "aten::permute",
            "aten::permute_copy",
            "aten::movedim.intlist",
            "aten::movedim.int",
            "aten::moveaxis.intlist",
            "aten::moveaxis.int",
        ),
        name="permutations",
        cases=(Case(permutations, floats(3, 4, 5)), Case(permutations, bools(2, 3, 2))),
    ),
    Row("aten::repeat", name="0-d", cases=(Case(of_zero_dim, torch.tensor(2.5)),), static="0-d"),
    Row(
        (
            "aten::expand",
            "aten::expand_copy",
            "aten::broadcast_to",
            "aten::expand_as",
            "aten::broadcast_tensors",
            "aten::repeat",
            "aten::tile",
        ),
        name="broadcasts",
        cases=(
            Case(broadcasts, floats(3, 1, 2), floats(5, 1)),
            Case(broadcasts, bools(3, 1, 2), bools(5, 1)),
        ),
    ),
    Row("aten::repeat", opinfo="repeat", dtypes=("float32",)),
    Row("aten::tile", opinfo="tile", dtypes=("float32",)),
    Row("aten::sum_to_size", opinfo="sum_to_size"),
    Row(
        tuple(f"aten::atleast_{n}d{s}" for n in (1, 2, 3) for s in ("", ".Sequence")),
        name="atleast",
        cases=(Case(at_least, floats(3, 4, 5)),),
    ),
    Row(
        ("aten::alias", "aten::alias_copy", "aten::resolve_conj", "aten::resolve_neg"),
        name="aliases",
        cases=(
            Case(
                lambda x: (
                    aten.alias(x) + 1,
                    aten.alias_copy(x) + 1,
                    aten.resolve_conj(x) + 1,
                    aten.resolve_neg(x) + 1,
                ),
                floats(3, 4),
            ),
        ),
    ),
    Row(
        ("aten::copy", "aten::fill.Scalar", "aten::fill.Tensor", "aten::zero"),
        name="overwritten",
        cases=(
            Case(overwritten, floats(3, 4), integers(4)),
            Case(overwritten, integers(3, 4, dtype=torch.int16), floats(4)),
            Case(overwritten, bools(3, 4), floats(4)),
        ),
    ),
    Row(
        "aten::view.dtype",
        cases=(
            Case(lambda x: aten.view.dtype(x, torch.uint8) + 1, integers(3, 4, dtype=torch.int8)),
            Case(lambda x: aten.view.dtype(x, torch.int8) + 1, bools(3, 4)),
            Case(lambda x: aten.view.dtype(x.to(torch.uint8), torch.bool), bools(3, 4)),
            *(Case(bits_and_back, irregular(dtype)) for dtype in FLOATS),
            Case(parts_and_back, integers(3, 4, low=-(2**31), high=2**31, dtype=torch.int32)),
            Case(parts_and_back, integers(3, 4, low=-(2**63), high=2**63 - 1)),
            Case(parts_and_back, irregular(torch.float32)),
            Case(bits_of_constants, floats(3, 4)),
        ),
    ),
    Row(
        "aten::_shape_as_tensor",
        native_only="torch.export reads the elements of the result",
        cases=(
            Case(
                lambda x: (aten._shape_as_tensor(x), x + aten._shape_as_tensor(x)[1]), floats(3, 4)
            ),
            Case(lambda x: aten._shape_as_tensor(x.sum()) + 1, floats(3, 4)),
        ),
    ),
]
