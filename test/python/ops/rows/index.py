"""Rows of csrc/ops/tensor/index.cpp."""

import torch

from ops.row import Case, Row, bools, floats, integers

aten = torch.ops.aten

FLOAT = ("float32",)
AT_I = torch.tensor([[0, -1], [1, 1]])
AT_J = torch.tensor([2, -2])


def advanced(x: torch.Tensor, i: torch.Tensor, j: torch.Tensor) -> list[torch.Tensor]:
    """NumPy's indexing rules on a [?, 3, 4, 5] tensor."""
    return [
        x[i],
        x[:, i],
        x[:, :, j],
        x[i, j],
        x[:, i, j],
        x[:, :, i, j],
        x[i, :, j],
        x[:, i, :, j],
        x[i, j, j, i],
        x[None, i, 1:, j],
        x[..., j.int()],
        x[[1, 0]],
        aten._unsafe_index.Tensor(x, [None, i]),
    ]


def masked(x: torch.Tensor, rows: torch.Tensor, grid: torch.Tensor) -> list[torch.Tensor]:
    """Masks of a [4, 3, 5] tensor."""
    return [
        x[:, rows],
        x[:, rows, 1],
        x[:, grid],
        x[:, rows, torch.tensor([3])],
        x[torch.tensor([2]), :, torch.tensor([1, 1, 0, 1, 0]) == 1],
    ]


def selected(x: torch.Tensor, mask: torch.Tensor) -> list[torch.Tensor]:
    """Elements of a [?, 4] tensor selected by masks."""
    return [
        aten.masked_select(x, mask),
        aten.masked_select(x, mask[1]),
        aten.masked_select(x[0], mask),
    ]


def not_zero(x: torch.Tensor) -> list[torch.Tensor]:
    """All forms."""
    return [
        aten.nonzero(x),
        aten.argwhere(x),
        *aten.nonzero_numpy(x),
        *aten.where(x),
        aten.nonzero_static(x, size=3),
        aten.nonzero_static(x, size=20, fill_value=7),
    ]


def taken(x: torch.Tensor, i: torch.Tensor) -> list[torch.Tensor]:
    """Elements of a [?, 4] tensor."""
    return [
        aten.take(x, i),
        aten.take_along_dim(x, i),
        aten.gather(x, 1, i),
        aten.gather(x, -1, i[:1]),
        aten.gather(x, 0, torch.zeros(0, 2, dtype=torch.int64)),
        aten.index_select(x, 1, i[0]),
        aten.index_select(x, -1, i[0, 0].int()),
    ]


def of_zero_dim(x: torch.Tensor, i: torch.Tensor) -> list[torch.Tensor]:
    """Ways to index a 0-D tensor."""
    return [
        aten.gather(x, 0, i),
        aten.gather(x, -1, i.reshape(1)),
        aten.index_select(x, 0, i) + 1,
        aten.take(x, i),
        aten.nonzero(x),
        aten.argwhere(x),
        aten.nonzero_numpy(x)[0],
        aten.masked_select(x, x > 0),
    ]


ROWS = [
    Row(
        ("aten::index.Tensor", "aten::_unsafe_index.Tensor"),
        name="advanced",
        cases=(
            Case(advanced, floats(4, 3, 4, 5)[:, :, :3, :3], AT_I, AT_J),
            Case(lambda x, i: x[i], floats(4, 3), torch.zeros(0, dtype=torch.int64)),
            Case(lambda x, i: x[:, i], bools(4, 3), torch.tensor(1)),
        ),
    ),
    Row(
        "aten::index.Tensor",
        name="masks",
        cases=(
            Case(masked, floats(4, 3, 5), bools(3), bools(3, 5)),
            Case(lambda x, mask: x[mask], integers(4, 3), bools(4, 3)),
            Case(lambda x, mask: x[mask], floats(4, 3), bools(4) & False),
        ),
    ),
    Row("aten::_unsafe_masked_index", opinfo="_unsafe_masked_index", dtypes=FLOAT),
    Row("aten::index_select", opinfo="index_select", dtypes=("float32", "bool")),
    Row("aten::gather", opinfo="gather", dtypes=("float32", "bool")),
    Row(
        ("aten::take", "aten::take_along_dim", "aten::gather", "aten::index_select"),
        name="taken",
        cases=(
            Case(taken, floats(3, 4), torch.tensor([[0, 1, 3], [2, 2, 0], [1, 3, 3]])),
            Case(lambda x, i: aten.take_along_dim(x, i, 1), floats(1, 4), AT_I.abs()),
            Case(lambda x, i: aten.take_along_dim(x, i, 0), floats(3, 4), AT_I.abs()[:, :1]),
            Case(taken, bools(3, 4), torch.tensor([[0, 1, 3], [2, 2, 0], [1, 3, 3]])),
        ),
    ),
    Row("aten::take", opinfo="take", dtypes=FLOAT),
    Row(
        "aten::gather",
        name="reads of 0-d",
        cases=(Case(of_zero_dim, torch.tensor(2.5), torch.tensor(0)),),
        static="0-d",
    ),
    Row(
        "aten::masked_select",
        opinfo="masked_select",
        dtypes=FLOAT,
        cases=(Case(selected, floats(3, 4), bools(3, 4)),),
    ),
    Row(
        (
            "aten::nonzero",
            "aten::argwhere",
            "aten::nonzero_numpy",
            "aten::where",
            "aten::nonzero_static",
        ),
        name="not zero",
        cases=(
            Case(not_zero, bools(3, 4)),
            Case(not_zero, integers(3, 4, low=0, high=2, dtype=torch.int16)),
            Case(not_zero, torch.tensor([0.0, -0.0, float("nan"), 1])),
            Case(lambda x: aten.nonzero(x), torch.tensor(0)),
        ),
    ),
]
