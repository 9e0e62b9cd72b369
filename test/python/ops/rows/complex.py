"""Rows of csrc/ops/complex/*.cpp: calls with complex tensors."""

from collections.abc import Callable
from typing import Any

import torch

from ops.row import NEWEST_RANDOM_OPSET, Case, Row, bools, floats, integers

aten = torch.ops.aten


def complexes(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Returns normally distributed complex numbers."""
    return torch.view_as_complex(floats(*shape, 2, seed=seed, dtype=dtype))


Z = complexes(4, 3)
W = complexes(4, 3, seed=1)
CUBE = complexes(4, 2, 3, seed=2)
POINT = complexes()
SQUARE = complexes(3, 3, seed=3)
PLACES = integers(4, 3, low=0, high=3)
MASK = bools(4, 3)
REAL = floats(4, 3, seed=5)
VECTOR = complexes(4, seed=6)
TRIPLE = complexes(3, seed=7)
MATRIX = complexes(3, 2, seed=8)
ANGLES = floats(8, 4)


def row(op: str, *cases: Case, **options: Any) -> Row:
    return Row(f"aten::{op}@complex", cases=cases, name=f"{op} of complex", **options)


def unary(op: str, function: Callable[..., Any]) -> Row:
    return row(op, Case(function, Z))


def rotary(query: torch.Tensor, frequencies: torch.Tensor) -> torch.Tensor:
    """Rotary position embedding from Llama's reference code."""
    pairs = torch.view_as_complex(query.float().reshape(*query.shape[:-1], -1, 2))
    turns = torch.polar(torch.ones_like(frequencies), frequencies)
    turns = turns[: query.shape[0]].view(query.shape[0], 1, 1, pairs.shape[-1])
    return torch.view_as_real(pairs * turns).flatten(3).type_as(query)


def written(x: torch.Tensor) -> torch.Tensor:
    """Writes through every kind of view."""
    y = x.clone()
    y[:, 0] = 1j  # type: ignore[assignment]
    torch.view_as_real(y)[..., 1] += 1
    y.real.mul_(2)
    y.imag.add_(y.real)
    y.mH[0] *= 2j
    y.conj()[1:] += x[1:]
    return y


# Not contiguous.
TABLE = complexes(3, 8).T

FIXED = "torch.export makes the size a constant"

VIEWS = [
    row("view", Case(lambda x: x.view(-1, 6), CUBE), Case(lambda x: x.view(1, 1), POINT)),
    row("reshape", Case(lambda x: x.mT.reshape(x.shape[0], -1), CUBE)),
    row("_unsafe_view", Case(lambda x: aten._unsafe_view(x, [x.shape[0], 6]), CUBE)),
    row(
        "flatten.using_ints",
        Case(lambda x: x.flatten(-2, -1), CUBE),
        Case(torch.flatten, POINT),
    ),
    row("unflatten.int", Case(lambda x: x.unflatten(-1, (1, -1)), CUBE)),
    row("ravel", Case(torch.ravel, Z)),
    row("view_as", Case(lambda x, y: x.view_as(y), Z, REAL)),
    row("reshape_as", Case(lambda x, y: x.reshape_as(y), Z, W)),
    row("squeeze", Case(lambda x: x[:, :1].squeeze(), CUBE)),
    row("squeeze.dim", Case(lambda x: x[:, :1].squeeze(-2), CUBE)),
    row("squeeze.dims", Case(lambda x: x[:, :1].squeeze((-2, 0)), CUBE)),
    row("unsqueeze", Case(lambda x: x.unsqueeze(-1), Z), Case(lambda x: x.unsqueeze(-1), POINT)),
    row("transpose.int", Case(lambda x: x.transpose(-1, 1), CUBE)),
    row("swapaxes", Case(lambda x: x.swapaxes(-1, 0), CUBE)),
    row("swapdims", Case(lambda x: x.swapdims(-1, 0), CUBE)),
    row("permute", Case(lambda x: x.permute(0, -1, -2), CUBE)),
    row("movedim.int", Case(lambda x: x.movedim(-1, 0), CUBE)),
    row("movedim.intlist", Case(lambda x: x.movedim((-1, 0), (0, 1)), CUBE)),
    row("moveaxis.int", Case(lambda x: x.moveaxis(-1, 0), CUBE)),
    row("moveaxis.intlist", Case(lambda x: x.moveaxis((-1, 0), (0, 1)), CUBE)),
    row("t", Case(torch.t, Z), Case(torch.t, VECTOR)),
    row("mT", Case(lambda x: x.mT, CUBE)),
    row("mH", Case(lambda x: x.mH, CUBE)),
    row("adjoint", Case(torch.adjoint, CUBE)),
    row("matrix_H", Case(lambda x: x.H, Z)),
    row("numpy_T", Case(lambda x: x.T, Z), Case(lambda x: x.T, CUBE)),
    row("expand", Case(lambda x: x[:, None].expand(-1, 2, -1), Z)),
    row("broadcast_to", Case(lambda x: x[:, None].broadcast_to(x.shape[0], 2, 3), Z)),
    row("expand_as", Case(lambda x, y: x[:, :1].expand_as(y), Z, REAL)),
    row(
        "broadcast_tensors",
        Case(lambda x, y: torch.broadcast_tensors(x[:, :1], y), Z, W),
        Case(lambda x, y: torch.broadcast_tensors(x, y >= 0), Z, REAL),
        Case(lambda x, y: torch.broadcast_tensors(y[:1] * 2, x), Z, REAL),
    ),
    row("repeat", Case(lambda x: x.repeat(2, 1, 2), Z)),
    row("tile", Case(lambda x: x.tile(2), Z)),
    row("select.int", Case(lambda x: x[:, -1], Z), Case(lambda x: x.select(-1, 0), VECTOR)),
    row("slice.Tensor", Case(lambda x: x[1:, ..., :-1], CUBE)),
    row("narrow", Case(lambda x: x.narrow(-1, 1, 2), Z)),
    row("select_copy.int", Case(lambda x: aten.select_copy(x, -1, 0), Z)),
    row("slice_copy.Tensor", Case(lambda x: aten.slice_copy(x, -1, 1, 3), Z)),
    row("narrow_copy", Case(lambda x: x.narrow_copy(-1, 1, 2), Z)),
    row("unbind.int", Case(lambda x: x.unbind(-1), Z)),
    row("split.Tensor", Case(lambda x: x.split(2, -1), Z)),
    row("split.sizes", Case(lambda x: aten.split.sizes(x, [1, 2], -1), Z)),
    row(
        "split_with_sizes",
        Case(lambda x: x.split([1, 2], -1), Z),
        Case(lambda x: (x.asinh() * 2).split([1]), VECTOR[:1]),
    ),
    row("chunk", Case(lambda x: x.chunk(2, -1), Z)),
    row("tensor_split.sections", Case(lambda x: x.tensor_split(2, -1), Z)),
    row("tensor_split.indices", Case(lambda x: x.tensor_split([1], -1), Z)),
    row("flip", Case(lambda x: x.flip(-1), Z), Case(lambda x: x.flip(0), POINT)),
    row("fliplr", Case(torch.fliplr, Z)),
    row("flipud", Case(torch.flipud, Z)),
    row("fft_fftshift", Case(torch.fft.fftshift, Z), Case(lambda x: torch.fft.fftshift(x, -1), Z)),
    row("fft_ifftshift", Case(torch.fft.ifftshift, Z)),
    row("roll", Case(lambda x: x.roll(1), Z), Case(lambda x: x.roll((1, -1), (0, -1)), Z)),
    row("rot90", Case(torch.rot90, Z)),
    row("cat", Case(lambda x, y: torch.cat([x, y], -1), Z, REAL)),
    row("concat", Case(lambda x, y: torch.concat([x, y], -1), Z, W)),
    row("concatenate", Case(lambda x, y: torch.concatenate([x, y], -1), Z, W)),
    row(
        "stack",
        Case(lambda x, y: torch.stack([x, y], -1), Z, W),
        Case(lambda x: torch.stack([x, x], -1), POINT),
    ),
    row("hstack", Case(lambda x, y: torch.hstack([x, y]), Z, W)),
    row("vstack", Case(lambda x, y: torch.vstack([x, y]), Z, W)),
    row("dstack", Case(lambda x, y: torch.dstack([x, y]), Z, W)),
    row("column_stack", Case(lambda x, y: torch.column_stack([x, y]), Z, W)),
    row("block_diag", Case(lambda x, y: torch.block_diag(x, y), Z, W), static="its sizes are cut"),
    row("meshgrid", Case(lambda x: aten.meshgrid([x, x]), VECTOR)),
    row("meshgrid.indexing", Case(lambda x: torch.meshgrid(x, x, indexing="xy"), VECTOR)),
    *(
        row(f"atleast_{rank}d", Case(getattr(torch, f"atleast_{rank}d"), VECTOR))
        for rank in (1, 2, 3)
    ),
    *(
        row(
            f"atleast_{rank}d.Sequence",
            Case(lambda x, y, f=function: f(x, y > 0), VECTOR, REAL),
        )
        for rank, function in enumerate((torch.atleast_1d, torch.atleast_2d, torch.atleast_3d), 1)
    ),
    row("unfold", Case(lambda x: x.unfold(-1, 2, 1), Z)),
    row("as_strided", Case(lambda x: x.as_strided((2, 2), (1, 3), 2), Z), static="sizes are given"),
    row("diagonal", Case(lambda x: x.diagonal(0, -2, -1), CUBE)),
    row("linalg_diagonal", Case(torch.linalg.diagonal, CUBE)),
    row("diag_embed", Case(torch.diag_embed, Z)),
    row("diag", Case(torch.diag, VECTOR)),
    row("diagflat", Case(torch.diagflat, VECTOR)),
    row(
        "diagonal_scatter",
        Case(lambda x, y: torch.diagonal_scatter(x, y), SQUARE, complexes(3)),
        static="a square matrix",
    ),
    row("tril", Case(torch.tril, Z)),
    row("triu", Case(torch.triu, Z)),
    row(
        "index.Tensor",
        Case(lambda x, i: x[:, i], CUBE, torch.tensor([1, 0, 1])),
        Case(lambda x, i: x[i], Z, MASK),
    ),
    row("index_select", Case(lambda x, i: x.index_select(-1, i), Z, torch.tensor([2, 0]))),
    row("gather", Case(lambda x, i: x.gather(-1, i), Z, PLACES)),
    row("take", Case(lambda x, i: x.take(i), Z, PLACES)),
    row("take_along_dim", Case(lambda x, i: x.take_along_dim(i, -1), Z, PLACES), static=FIXED),
    row("put", Case(lambda x, i, y: x.put(i, y), Z, torch.tensor([3, 7]), W[0, :2])),
    row(
        "as_strided_scatter",
        Case(lambda x, y: torch.as_strided_scatter(x, y, (2, 2), (1, 3), 2), Z, SQUARE[:2, :2]),
        static="sizes are given",
    ),
    row("masked_select", Case(torch.masked_select, Z, MASK)),
    row("masked_fill.Scalar", Case(lambda x, m: x.masked_fill(m, 1 + 2j), Z, MASK)),
    row("masked_fill.Tensor", Case(lambda x, m, v: x.masked_fill(m, v), Z, MASK, POINT)),
    row("masked_scatter", Case(torch.masked_scatter, Z, MASK, W)),
    row("where.self", Case(lambda m, x, y: torch.where(m, x, y), MASK, Z, REAL)),
    row("where.ScalarSelf", Case(lambda m, x: torch.where(m, 2, x), MASK, Z)),
    row("where.ScalarOther", Case(lambda m, x: torch.where(m, x, 1j), MASK, Z)),
    row("where.Scalar", Case(lambda m: torch.where(m, 2.0, 1j), MASK)),
    row(
        "index_put",
        Case(lambda x, i, y: x.index_put((i,), y), Z, torch.tensor([1, 0]), W[:2]),
        Case(lambda x, i, y: x.index_put((i,), y, True), Z, torch.tensor([1, 1]), W[:2]),
    ),
    row("slice_scatter", Case(lambda x, y: x.slice_scatter(y[:, :1], -1, 2), Z, W)),
    row("select_scatter", Case(lambda x, y: x.select_scatter(y[:, 0], -1, 2), Z, W)),
    row("scatter.src", Case(lambda x, i, y: x.scatter(-1, i[:, :1], y), Z, PLACES, W)),
    row("scatter.value", Case(lambda x, i: x.scatter(-1, i[:, :1], 2j), Z, PLACES)),
    row("scatter_add", Case(lambda x, i, y: x.scatter_add(-1, i, y), Z, PLACES, W)),
    row(
        "index_add",
        Case(lambda x, i, y: x.index_add(-1, i, y, alpha=2), Z, torch.tensor([1, 1, 0]), W),
    ),
    row("index_copy", Case(lambda x, i, y: x.index_copy(-1, i, y), Z, torch.tensor([1, 2, 0]), W)),
    row("index_fill.int_Scalar", Case(lambda x, i: x.index_fill(-1, i, 1j), Z, torch.tensor([1]))),
    row(
        "index_fill.int_Tensor",
        Case(lambda x, i, v: x.index_fill(-1, i, v), Z, torch.tensor([1]), POINT),
    ),
    row("constant_pad_nd", Case(lambda x: aten.constant_pad_nd(x, [1, 2], 1j), Z)),
    row("pad", Case(lambda x: torch.nn.functional.pad(x, (1, 1), "reflect"), CUBE)),
    row("copy", Case(lambda x, y: aten.copy(x, y), Z, REAL)),
    row("fill.Scalar", Case(lambda x: aten.fill(x, 1 + 2j), Z)),
    row("fill.Tensor", Case(lambda x, y: aten.fill(x, y), Z, POINT)),
    row("zero", Case(lambda x: aten.zero(x), Z)),
    row("clone", Case(torch.clone, Z)),
    row("detach", Case(torch.detach, Z)),
    row("detach_copy", Case(torch.detach_copy, Z)),
    row("alias", Case(lambda x: aten.alias(x), Z)),
    row("contiguous", Case(lambda x: x.mT.contiguous(), Z)),
    row("positive", Case(torch.positive, Z)),
    row("resolve_conj", Case(lambda x: x.conj().resolve_conj(), Z)),
    row("resolve_neg", Case(lambda x: x.resolve_neg(), Z)),
    row("lift_fresh_copy", Case(lambda x: aten.lift_fresh_copy(x), Z)),
]

MADE = "there is no tensor input"
CREATION = [
    row("full", Case(lambda: torch.full((2, 3), 1 + 2j)), static=MADE),
    row("full_like", Case(lambda x: torch.full_like(x, 1 + 2j), Z)),
    row("new_full", Case(lambda x: x.new_full((2, 3), 1j), Z)),
    row(
        "scalar_tensor",
        Case(lambda: aten.scalar_tensor(2 + 1j, dtype=torch.complex64)),
        static=MADE,
    ),
    row("zeros", Case(lambda: torch.zeros(2, 3, dtype=torch.complex64)), static=MADE),
    row("zeros_like", Case(lambda x: torch.zeros_like(x, dtype=torch.complex128), REAL)),
    row("new_zeros", Case(lambda x: x.new_zeros(x.shape[0], 2), Z)),
    row("ones", Case(lambda: torch.ones(2, 3, dtype=torch.complex64)), static=MADE),
    row("ones_like", Case(torch.ones_like, Z)),
    row("new_ones", Case(lambda x: x.new_ones(x.shape[0], 2), Z)),
    row(
        "empty.memory_format",
        Case(lambda: torch.empty(2, dtype=torch.complex64)),
        static=MADE,
        random=True,
    ),
    row(
        "empty_strided",
        Case(lambda: torch.empty_strided((2,), (1,), dtype=torch.complex64)),
        static=MADE,
        random=True,
    ),
    row("empty_like", Case(torch.empty_like, Z), random=True),
    row("new_empty", Case(lambda x: x.new_empty(2, 3), Z), random=True),
    row("new_empty_strided", Case(lambda x: x.new_empty_strided((2,), (1,)), Z), random=True),
    row("eye", Case(lambda: torch.eye(3, dtype=torch.complex64)), static=MADE),
    row("eye.m", Case(lambda: torch.eye(3, 2, dtype=torch.complex64)), static=MADE),
    row("linspace", Case(lambda: torch.linspace(0, 1, 4, dtype=torch.complex64)), static=MADE),
    row("logspace", Case(lambda: torch.logspace(0, 1, 4, dtype=torch.complex64)), static=MADE),
    row(
        "uniform",
        Case(lambda x: x.clone().uniform_(1, 2), Z),
        random=True,
        newest=NEWEST_RANDOM_OPSET,
    ),
    row(
        "rand",
        Case(lambda: torch.rand(2, 3, dtype=torch.complex64)),
        static=MADE,
        random=True,
        newest=NEWEST_RANDOM_OPSET,
    ),
    row("rand_like", Case(torch.rand_like, Z), random=True, newest=NEWEST_RANDOM_OPSET),
    row(
        "randn",
        Case(lambda: torch.randn(2, 3, dtype=torch.complex64)),
        static=MADE,
        random=True,
        newest=NEWEST_RANDOM_OPSET,
    ),
    row("randn_like", Case(torch.randn_like, Z), random=True, newest=NEWEST_RANDOM_OPSET),
]

CONVERSIONS = [
    Row("aten::complex@complex", opinfo="complex"),
    Row("aten::polar@complex", opinfo="polar"),
    Row("aten::view_as_complex@complex", opinfo="view_as_complex"),
    Row("aten::chalf@complex", opinfo="chalf"),
    row(
        "view_as_real",
        Case(torch.view_as_real, Z),
        Case(written, Z),
        Case(lambda x: rotary(x, ANGLES), floats(3, 2, 3, 8)),
        Case(lambda x: torch.view_as_real(x * TABLE[1 : 1 + x.shape[0]]), Z),
    ),
    row("real", Case(torch.real, Z)),
    row("imag", Case(torch.imag, Z), Case(lambda x, y: (x * y).imag, Z, W)),
    row("conj", Case(lambda x: aten.conj(x), Z)),
    row("_conj", Case(torch.conj, Z)),
    row("conj_physical", Case(torch.conj_physical, Z)),
    row("_conj_physical", Case(lambda x: aten._conj_physical(x), Z)),
    row("_conj_copy", Case(lambda x: aten._conj_copy(x), Z)),
    row(
        "to.dtype",
        Case(lambda x: x.to(torch.complex64), REAL),
        Case(lambda x: x.to(torch.complex128), Z),
        Case(lambda x: x.to(torch.float64), Z),
        Case(lambda x: (x * torch.tensor([0, 1, 1j])).to(torch.bool), Z),
    ),
    row("to.device", Case(lambda x: x.to("cpu", torch.complex64), REAL)),
    row(
        "to.dtype_layout",
        Case(
            lambda x: aten.to.dtype_layout(
                x, dtype=torch.complex128, layout=torch.strided, device="cpu"
            ),
            Z,
        ),
    ),
    row("to.other", Case(lambda x, y: aten.to.other(x, y), REAL, Z)),
    row("_to_copy", Case(lambda x: aten._to_copy(x, dtype=torch.complex128), Z)),
    row("type_as", Case(lambda x, y: x.type_as(y), REAL, Z)),
    row(
        "view.dtype",
        Case(lambda x: x.view(torch.float32), Z),
        Case(lambda x: x.view(torch.complex64), floats(3, 4)),
    ),
]


def binary(op: str, **options: Any) -> list[Row]:
    """Rows of both overloads, with a complex and a real other."""
    function = getattr(aten, op)
    scalar = function.Scalar
    return [
        row(
            f"{op}.Tensor",
            Case(function.Tensor, Z, W),
            Case(function.Tensor, Z, REAL[0]),
            Case(function.Tensor, REAL, Z[:1]),
            Case(lambda x: function.Tensor(x, POINT), Z),
        ),
        row(
            f"{op}.Scalar",
            Case(lambda x: scalar(x, 2.5), Z),
            Case(lambda x: scalar(x, 1 - 2j), Z),
            Case(lambda x: scalar(x, 1 - 2j), REAL),
        ),
    ]


EXTREME = torch.tensor([1e30 + 1e30j, 1e-30 - 1e-30j, -4 + 0j, -4 - 0.0j, 3j, 0j])

ARITHMETIC = [
    *(
        r
        for op in (
            "add",
            "sub",
            "subtract",
            "rsub",
            "mul",
            "multiply",
            "div",
            "divide",
            "true_divide",
            "eq",
            "ne",
        )
        for r in binary(op)
    ),
    row("addcmul", Case(lambda x, y, z: torch.addcmul(x, y, z, value=2), Z, W, REAL)),
    row("addcdiv", Case(lambda x, y, z: torch.addcdiv(x, y, z, value=1j), Z, W, W + 1)),
    row(
        "pow.Tensor_Scalar",
        Case(lambda x: x**3, Z),
        Case(lambda x: x**-2, Z),
        Case(lambda x: x**0.5, Z),
        Case(lambda x: x ** (0.5 + 1j), Z),
        Case(lambda x: x**0, Z),
    ),
    row("pow.Tensor_Tensor", Case(torch.pow, Z, W), Case(torch.pow, REAL, Z)),
    row("pow.Scalar", Case(lambda x: 2.5**x, Z)),
    row("nan_to_num", Case(lambda x: torch.nan_to_num(x, 1), EXTREME / 0)),
    row("neg", Case(torch.neg, Z)),
    row("negative", Case(torch.negative, Z)),
    row(
        "abs", Case(torch.abs, Z), Case(torch.abs, EXTREME), Case(torch.abs, Z.to(torch.complex128))
    ),
    row(
        "angle",
        Case(torch.angle, Z),
        Case(torch.angle, EXTREME),
        Case(torch.angle, EXTREME.to(torch.complex128)),
    ),
    row("sqrt", Case(torch.sqrt, Z), Case(torch.sqrt, EXTREME)),
    row("sgn", Case(torch.sgn, Z), Case(torch.sgn, EXTREME)),
    row("reciprocal", Case(torch.reciprocal, Z), Case(torch.reciprocal, EXTREME[:5])),
    *(
        unary(op, getattr(torch, op))
        for op in (
            "exp",
            "log",
            "log2",
            "log10",
            "log1p",
            "rsqrt",
            "square",
            "sin",
            "cos",
            "tan",
            "sinh",
            "cosh",
            "tanh",
            "sigmoid",
            "isreal",
            "isnan",
            "isinf",
            "isfinite",
            "logical_not",
            "exp2",
            "expm1",
            "asin",
            "acos",
            "atan",
            "asinh",
            "acosh",
            "atanh",
        )
    ),
    unary("silu", torch.nn.functional.silu),
    row("logical_and", Case(torch.logical_and, Z, MASK)),
    row("logical_or", Case(torch.logical_or, MASK, Z)),
    row("logical_xor", Case(torch.logical_xor, Z, W)),
]

SUMS = [
    row("sum", Case(torch.sum, Z), Case(lambda x: x.sum(dtype=torch.complex128), Z)),
    row("sum.dim_IntList", Case(lambda x: x.sum(-1, keepdim=True), Z)),
    row("mean", Case(torch.mean, Z), static=FIXED),
    row("mean.dim", Case(lambda x: x.mean((0, -1)), CUBE), static=FIXED),
    row("cumsum", Case(lambda x: x.cumsum(-1), Z)),
    row("trace", Case(torch.trace, Z)),
    row("diff", Case(torch.diff, Z)),
    row("sum_to_size", Case(lambda x: x.sum_to_size(1, 3), Z)),
    row("prod", Case(torch.prod, SQUARE), static="the number of factors is constant"),
    row(
        "prod.dim_int",
        Case(lambda x: x.prod(-1, keepdim=True), Z),
        Case(lambda x: x.prod(0), POINT),
    ),
    row("var", Case(lambda x: aten.var(x), Z)),
    row("var.dim", Case(lambda x: aten.var.dim(x, [-1]), Z)),
    row("var.correction", Case(lambda x: x.var(-1, correction=0), Z)),
    *(
        row(f"{name}{overload}", Case(lambda x, f=function, a=arguments: f(x, *a), Z))
        for name, operator in (("var_mean", aten.var_mean), ("std_mean", aten.std_mean))
        for overload, function, arguments in (
            ("", operator.default, (False,)),
            (".dim", operator.dim, ([-1], True, True)),
            (".correction", operator.correction, ([-1],)),
        )
    ),
    row("linalg_vector_norm", Case(lambda x: torch.linalg.vector_norm(x, 2, -1), Z)),
    row("norm.Scalar", Case(lambda x: aten.norm.Scalar(x, 1), Z)),
    row("norm.ScalarOpt_dim", Case(lambda x: aten.norm.ScalarOpt_dim(x, 2, [-1]), Z)),
    row("any", Case(torch.any, Z)),
    row("any.dim", Case(lambda x: x.any(-1), Z)),
    row("all", Case(torch.all, Z)),
    row("all.dim", Case(lambda x: x.all(-1), Z)),
    row("count_nonzero", Case(lambda x: torch.count_nonzero(x, -1), Z)),
    row("count_nonzero.dim_IntList", Case(lambda x: torch.count_nonzero(x, (0, -1)), Z)),
    row("nonzero", Case(torch.nonzero, Z)),
    row("nonzero_static", Case(lambda x: torch.nonzero_static(x, size=7), Z)),
    row(
        "matmul",
        Case(lambda x, y: x @ y.mT, CUBE, complexes(4, 2, 3, seed=4)),
        Case(lambda x: x @ MATRIX, Z),
    ),
    row("linalg_matmul", Case(lambda x, y: torch.linalg.matmul(x, y.mT), Z, W)),
    row("mm", Case(lambda x, y: torch.mm(x, y.t()), Z, W)),
    row("bmm", Case(lambda x, y: torch.bmm(x, y.mT), CUBE, complexes(4, 2, 3, seed=4))),
    row("mv", Case(lambda x: torch.mv(x, TRIPLE), Z)),
    row("dot", Case(torch.dot, VECTOR, VECTOR + 1)),
    row("vdot", Case(torch.vdot, VECTOR, VECTOR + 1)),
    row("linalg_vecdot", Case(torch.linalg.vecdot, Z, W)),
    row("inner", Case(torch.inner, Z, W)),
    row("outer", Case(torch.outer, VECTOR, VECTOR + 1)),
    row("kron", Case(torch.kron, Z, W), static=FIXED),
    row(
        "einsum",
        Case(lambda x, y: torch.einsum("ij,kj->ik", x, y), Z, W),
        Case(lambda x, y: torch.einsum("ij,ij,ij->i", x, y, x), Z, W),
        Case(lambda x: torch.einsum("ij->ji", x), Z),
    ),
    row("tensordot", Case(lambda x, y: torch.tensordot(x, y, dims=([1], [1])), Z, W)),
    row(
        "addmm",
        Case(lambda x, y: torch.addmm(POINT, x, y.t(), beta=2, alpha=0.5j), Z, W),
    ),
    row("addbmm", Case(lambda x: torch.addbmm(POINT, x, x.mT, beta=1j, alpha=2), CUBE)),
    row("baddbmm", Case(lambda b, x, y: torch.baddbmm(b, x, y.mT), complexes(4, 2, 2), CUBE, CUBE)),
    row(
        "linear",
        Case(lambda x, w: torch.nn.functional.linear(x, w, VECTOR), Z, W),
        Case(torch.nn.functional.linear, Z, W),
    ),
]

ROWS = VIEWS + CREATION + CONVERSIONS + ARITHMETIC + SUMS
