"""Rows of csrc/ops/linalg/matmul.cpp."""

import torch

from ops.row import Case, Row, floats, integers

aten = torch.ops.aten

FIXED = "torch.export makes the sizes constants"


def wide_products(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor) -> list[torch.Tensor]:
    """Products of float16 tensors in float32, which eager PyTorch supports only on GPUs."""
    batch = [x[None] for x in (a, b)]
    if not torch.compiler.is_exporting():
        product = a.float() @ b.float()
        sum_ = 2 * c.float() + 3 * product
        return [product, product[None], sum_]
    dtype = torch.float32
    return [
        aten.mm.dtype(a, b, dtype),
        aten.bmm.dtype(*batch, dtype),
        aten.addmm.dtype(c, a, b, dtype, beta=2, alpha=3),
    ]


ROWS = [
    Row(
        "aten::linear",
        opinfo="nn.functional.linear",
        cases=(
            Case(aten.linear, floats(4, 3), floats(5, 3, seed=1), floats(5)),
            Case(aten.linear, floats(4, 2, 3), floats(5, 3, seed=1), floats(5)),
            Case(aten.linear, floats(3), floats(5, 3, seed=1)),
            Case(aten.linear, floats(4, 3), floats(3, seed=1)),
        ),
    ),
    Row(
        "aten::mm",
        opinfo="mm",
        cases=(
            Case(lambda x, y: aten.mm(x, y.t()), floats(4, 3), floats(5, 3, seed=1)),
            Case(lambda x, y: aten.mm(x.t(), y.t()), floats(3, 4), floats(5, 3, seed=1)),
            Case(aten.mm, floats(3, 0), floats(0, 4)),
        ),
    ),
    Row("aten::bmm", opinfo="bmm"),
    Row(
        "aten::matmul",
        opinfo="matmul",
        cases=(
            Case(
                aten.matmul,
                integers(3, 4, dtype=torch.int8),
                integers(4, 5, low=-99, high=99, dtype=torch.int8),
            ),
        ),
    ),
    Row("aten::mv", opinfo="mv"),
    Row("aten::dot", opinfo="dot"),
    Row("aten::vdot", opinfo="vdot"),
    Row(
        "aten::addmm",
        opinfo="addmm",
        cases=(
            Case(
                lambda c, x, y: aten.addmm(c, x, y, beta=0, alpha=2),
                floats(3, 4) / 0,
                floats(3, 2),
                floats(2, 4),
            ),
            Case(lambda c, x, y: aten.addmm(c, x, y.t()), floats(4), floats(3, 2), floats(4, 2)),
            Case(lambda c, x, y: aten.addmm(c, x, y, beta=2), floats(), floats(3, 2), floats(2, 4)),
        ),
    ),
    Row(
        "aten::addmv",
        opinfo="addmv",
        cases=(Case(lambda m, v, s: aten.addmv(s, m, v), floats(4, 3), floats(3), floats(1)),),
    ),
    Row(
        "aten::addbmm",
        opinfo="addbmm",
        # Sums around 100, which eager rounds after each matrix.
        tolerance={"float16": (5e-3, 5e-2)},
        cases=(
            Case(
                lambda x, y, s: aten.addbmm(s, x, y), floats(4, 2, 3), floats(4, 3, 5), floats(2, 5)
            ),
        ),
    ),
    Row("aten::baddbmm", opinfo="baddbmm"),
    Row(
        "aten::_trilinear",
        cases=(
            Case(
                lambda x, w, y: aten._trilinear(x, w, y, [1, 3], [0], [1, 2], []),
                *(integers(3, 4), integers(2, 4, 5, seed=1).int(), integers(3, 5, seed=2)),
            ),
            Case(
                lambda x, w, y: aten._trilinear(x, w, y, [1, 3], [0], [1, 2], [2, 3]),
                *(floats(3, 4), floats(2, 4, 5, seed=1), floats(3, 5, seed=2)),
            ),
        ),
    ),
    Row(
        "aten::_int_mm",
        cases=(
            Case(
                torch._int_mm,
                integers(32, 16, low=-128, high=128, dtype=torch.int8),
                integers(16, 8, low=-128, high=128, seed=1, dtype=torch.int8),
            ),
        ),
    ),
    Row(
        tuple(f"aten::{name}.dtype" for name in ("mm", "bmm", "addmm")),
        name="products of another dtype",
        cases=(
            Case(
                wide_products,
                *(floats(3, 4).half(), floats(4, 2, seed=1).half(), floats(3, 2, seed=2).half()),
            ),
        ),
    ),
    Row(
        "aten::addr",
        opinfo="addr",
        dtypes=("float32", "int64", "float16"),
        cases=(Case(lambda x, y, s: aten.addr(s, x, y), floats(4), floats(3), floats(3)),),
    ),
    Row("aten::outer", opinfo="outer"),
    Row("aten::inner", opinfo="inner"),
    Row("aten::kron", opinfo="kron", static=FIXED),
    Row(
        "aten::tensordot",
        opinfo="tensordot",
        cases=(
            Case(lambda x, y: aten.tensordot(x, y, [1], [0]), floats(4, 3), floats(3, 5)),
            Case(
                lambda x, y: aten.tensordot(x, y, [2, 0], [0, -1]),
                floats(4, 3, 2),
                floats(2, 5, 4),
            ),
        ),
    ),
    Row("aten::linalg_multi_dot", opinfo="linalg.multi_dot", static=FIXED),
    Row("aten::bilinear", opinfo="nn.functional.bilinear"),
    Row("aten::linalg_cross", opinfo="linalg.cross"),
    Row("aten::cross", opinfo="cross"),
    Row("aten::linalg_vecdot", opinfo="linalg.vecdot"),
    Row(
        "aten::linalg_vander",
        opinfo="linalg.vander",
        cases=(Case(lambda x: aten.linalg_vander(x, N=45), integers(4, dtype=torch.int8)),),
    ),
    Row(
        ("aten::ger", "aten::linalg_matmul", "aten::chain_matmul"),
        name="other names of products",
        cases=(
            Case(
                lambda x, y: (
                    aten.ger(x[0], y[0]),
                    aten.linalg_matmul(x, y),
                    aten.chain_matmul([x, y, x]),
                ),
                floats(4, 3),
                floats(3, 4),
            ),
        ),
        static="the chain's ends have the same size",
    ),
]
