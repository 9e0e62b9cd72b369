"""Operators on NaN and infinities match eager; docs/nan.md lists those that do not."""

import pathlib
from collections.abc import Callable
from typing import Any

import onnx_native
import pytest
import torch
import torch.nn.functional as F
from models import routes
from torch import Tensor

NAN, INF = float("nan"), float("inf")
TABLE = torch.tensor([[1.0, NAN], [2.0, 0.0], [NAN, 5.0], [-INF, -INF]])
IDS = torch.tensor([0, 1, 2, 1, 2, 1, 0, 3, 3])
OFFSETS = torch.tensor([0, 2, 4, 5, 5, 7])


@pytest.mark.parametrize("padding", [None, 1])
@pytest.mark.parametrize("opset", [17, 20])
def test_greatest_of_a_bag(opset: int, padding: int | None) -> None:
    """NaN counts only if it comes first; the greatest of -inf is -inf."""

    def bags(table: Tensor, ids: Tensor, offsets: Tensor) -> Tensor:
        return F.embedding_bag(ids, table, offsets, mode="max", padding_idx=padding)

    routes.check(
        bags,
        (TABLE, IDS, OFFSETS),
        "native",
        (TABLE, IDS[:0], OFFSETS[:1]),
        dynamic=({}, {0: "ids"}, {0: "bags"}),
        opset=opset,
    )


def test_unique_elements() -> None:
    """Each NaN is an element of its own."""
    examples = [
        torch.tensor(x)
        for x in (
            [1.0, NAN, 2.0, NAN, INF, INF, 1.0],
            [NAN, NAN],
            [2.0, 1.0, 2.0],
            [NAN, -INF, NAN, -INF],
        )
    ]
    routes.check(
        lambda x: torch.unique(x, return_inverse=True, return_counts=True),
        (examples[0],),
        "native",
        *((x,) for x in (*examples[1:], examples[0][:0])),
        dynamic=({0: "n"},),
    )


VALUES = torch.tensor([[NAN, 2.0, 5.0, INF, -INF], [1.0, 0.0, 3.0, 2.0, 2.0]])
SEQUENCES = (
    [1.0, 2.0, NAN, NAN, NAN],
    [1.0, 2.0, 3.0, 4.0, 5.0],
    [NAN, 2.0, 1.0, 4.0, NAN],
    [3.0, 2.0, 2.0, -INF, INF],
)


@pytest.mark.parametrize("right", [False, True])
@pytest.mark.parametrize("dynamic", [False, True])
def test_search_in_sequences_with_nan_or_out_of_order(right: bool, dynamic: bool) -> None:
    def search(sequence: Tensor, values: Tensor) -> tuple[Tensor, ...]:
        rows = torch.stack([sequence, sequence.flip(0)])
        return (
            torch.searchsorted(sequence, values, right=right),
            torch.searchsorted(rows, values, right=right),
            torch.searchsorted(sequence, 2.0, right=right),
            torch.bucketize(values, sequence, right=right, out_int32=True),
        )

    first, *others = [(torch.tensor(sequence), VALUES) for sequence in SEQUENCES]
    shorter = [(x[:n], y) for x, y in others for n in (1, 4)] if dynamic else []
    names = ({0: "n"}, {}) if dynamic else None
    routes.check(search, first, "native", *others, *shorter, dynamic=names)


@pytest.mark.parametrize(
    "boundaries", [[0.0, 1.0, 2.0, 2.0], [0.0, 1.0, NAN, NAN], [3.0, 1.0, 2.0]]
)
def test_constant_boundaries(boundaries: list[float]) -> None:
    routes.check(lambda x: torch.bucketize(x, torch.tensor(boundaries)), (VALUES,), "native")


def test_modes() -> None:
    """NaN is the mode of NaN only."""
    rows = [[1.0, 1.0, NAN, 2.0], [NAN] * 4, [INF, INF, NAN, 2.0], [NAN, NAN, 1.0, 1.0]]
    routes.check(lambda x: tuple(x.mode(1)), (torch.tensor(rows),), "native")


@pytest.mark.parametrize("function", [torch.cummin, torch.cummax])
@pytest.mark.parametrize("opset", [11, 20])
def test_cumulative_extremes(function: Callable[..., tuple[Tensor, ...]], opset: int) -> None:
    rows = [
        [NAN, 1.0, 2.0, 0.0],
        [3.0, NAN, 1.0, NAN],
        [NAN, NAN, -INF, INF],
        [INF, -INF, 1.0, 2.0],
    ]
    x = torch.tensor(rows)
    routes.check(lambda x: (*function(x, 0), *function(x, 1)), (x,), "native", opset=opset)


@pytest.mark.parametrize("size", [1, 2, 3])
def test_adaptive_maxima(size: int) -> None:
    x = torch.tensor([[[1.0, NAN, NAN, 3.0, -INF, -INF, 2.0]]])
    x = torch.cat([x, x.flip(2), torch.full_like(x, -INF), torch.full_like(x, NAN)], 1)

    def pools(x: Tensor) -> tuple[Tensor, ...]:
        return (
            *F.adaptive_max_pool1d(x, size, return_indices=True),
            *F.adaptive_max_pool2d(x.unsqueeze(2).expand(-1, -1, 3, -1), size, return_indices=True),
        )

    routes.check(pools, (x,), "native", (x[..., :5],), dynamic=({2: "n"},))


def test_norms_of_rolled_rows() -> None:
    routes.check(
        lambda x: (x.roll(1, 0).norm(dim=1), x.roll((1, 2), (0, 1)).norm(), x.roll(1).norm()),
        (torch.tensor([[1.0, NAN, 2.0], [INF, -INF, 0.0]]),),
        "native",
        (torch.zeros(0, 3),),
        dynamic=({0: "n"},),
    )


ROWS = torch.tensor(
    [
        [3.0, NAN, 1.0, INF, -INF, NAN, 0.5, INF],
        [NAN] * 8,
        [NAN, INF, NAN, INF, INF, 2.0, NAN, 2.0],
        [5.0, 4.0, 3.0, 2.0, 1.0, 1.0, -INF, 3.4e38],
        [INF, NAN, -INF, -INF, 0.0, -0.0, 1e-40, 3e-40],
    ]
)


@pytest.mark.parametrize(
    "dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64], ids=str
)
def test_sorts(dtype: torch.dtype) -> None:
    """NaN is the greatest element, infinities are next; equal elements keep their order."""

    def sorts(x: Tensor) -> tuple[Tensor, ...]:
        return (
            *x.sort(dim=1, stable=True),
            *x.sort(dim=0, descending=True, stable=True),
            torch.argsort(x, dim=1, descending=True, stable=True),
            torch.argsort(x, dim=0, stable=True),
            torch.msort(x),
            *(x.topk(k, 1, largest)[0] for k in (1, 3, 8) for largest in (True, False)),
            *(x.kthvalue(k, 1)[0] for k in (1, 2, 5, 8)),
            *x.median(1),
            x.nanmedian(1)[0],
        )

    routes.check(sorts, (ROWS.to(dtype),), "native", (ROWS[:2].to(dtype),), dynamic=({0: "n"},))


def test_indices_of_distinct_elements() -> None:
    rows = torch.tensor([[3.0, NAN, 1.0, INF, -INF], [NAN, -1.0, INF, 3.4e38, 0.0]])

    def indices(x: Tensor) -> tuple[Tensor, ...]:
        return (
            *(x.topk(k, 1, largest)[1] for k in (1, 3, 5) for largest in (True, False)),
            *(x.kthvalue(k, 1)[1] for k in (1, 2, 5)),
            *x.nanmedian(1),
        )

    routes.check(indices, (rows,), "native")


@pytest.mark.parametrize("function", [torch.sigmoid, lambda x: x.softmax(1)])
def test_sorts_of_bounded_elements(function: Callable[[Tensor], Tensor]) -> None:
    x = torch.tensor([[3.0, NAN, 1.0, 2.0, -1.0], [1.0, -1.0, 2.0, 7.0, 0.0]])
    routes.check(lambda x: function(x).sort(dim=1, stable=True), (x,), "native")


def test_sorts_that_ignore_nan() -> None:
    with onnx_native.options(nan="ignore"):
        program = torch.onnx.export(lambda x: x.topk(2), (ROWS,), verbose=False)
    assert [node.op_type for node in program.model_proto.graph.node] == ["TopK"]
    assert program.export_report["nan_differences"] == {"TopK": 1}
    with pytest.raises(ValueError, match="nan= takes one of"), onnx_native.options(nan="some"):
        pass


def test_sorts_of_integers_are_plain() -> None:
    program = torch.onnx.export(lambda x: x.sort(), (torch.tensor([3, 1, 2]),), verbose=False)
    assert [node.op_type for node in program.model_proto.graph.node] == ["TopK"]
    assert program.export_report["nan_differences"] == {}


@pytest.mark.parametrize("ceil_mode", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_exact_max_pools(dtype: torch.dtype, ceil_mode: bool) -> None:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(2, 3, 5, 7, 6, generator=generator, dtype=dtype)
    chosen = torch.randint(40, x.shape, generator=generator)
    for i, value in enumerate((NAN, NAN, INF, -INF)):
        x[chosen == i] = value

    def pools(x: Tensor) -> tuple[Tensor, ...]:
        options: Any = {"stride": 2, "padding": 1, "ceil_mode": ceil_mode, "return_indices": True}
        return (
            *F.max_pool1d(x.flatten(2), 3, **options),
            *F.max_pool2d(x.flatten(1, 2), (3, 2), dilation=(1, 2), **options),
            *F.max_pool3d(x, 3, **options),
            F.max_pool2d(x[0], 2),
            F.max_pool1d(x[0, 0], 3, stride=1),
        )

    with onnx_native.options(nan="exact"):
        routes.check(pools, (x,), "native", (x[:1],), dynamic=({0: "n"},))
        program = torch.onnx.export(lambda x: F.max_pool2d(x, 2), (x[0],), verbose=False)
    assert program.export_report["nan_differences"] == {}
    program = torch.onnx.export(lambda x: F.max_pool2d(x, 2), (x[0],), verbose=False)
    assert program.export_report["nan_differences"] == {"MaxPool": 1}


def test_extrema_of_prims() -> None:
    x = torch.tensor([[1.0, NAN], [NAN, 2.0], [INF, -INF], [-INF, -INF]])
    prims = torch.ops.prims
    routes.check(lambda x: (prims.amax(x, [1]), prims.amin(x, [0]), prims.amax(x, [0])), (x,), "fx")


@pytest.mark.parametrize("power", [1, 2])
def test_margin_losses(power: int) -> None:
    """Eager compares with <, which is false for NaN."""
    x = torch.tensor([[3.0, NAN, 1.0, -1.0], [NAN, 0.5, INF, 2.0], [0.5, 0.0, -INF, 1.0]])
    one, lists = (
        torch.tensor([0, 0, 3]),
        torch.tensor([[0, 1, -1, 0], [2, -1, 0, 0], [3, 0, 1, -1]]),
    )

    def losses(x: Tensor) -> tuple[Tensor, ...]:
        weights = torch.tensor([1.0, 0.5, 2.0, 1.0])
        return (
            F.multi_margin_loss(x, one, p=power, weight=weights, reduction="none"),
            F.multilabel_margin_loss(x, lists, reduction="none"),
        )

    routes.check(losses, (x,), "native")


@pytest.mark.parametrize("size", [(2, 3, 0, 4), (2, 3, 4, 0), (0, 3, 2, 2)])
def test_means_of_nothing(size: tuple[int, ...]) -> None:
    routes.check(lambda x: F.adaptive_avg_pool2d(x, 1), (torch.zeros(size),), "native")


PAGE = pathlib.Path(__file__).parents[3] / "docs" / "nan.md"
X = torch.tensor([[3.0, NAN, 1.0, -1.0, NAN, 0.5, 7.0, 2.0]])
# An example for each line of the page's table.
DIFFERENT: dict[str, Callable[[Tensor], object]] = {
    "max_pool1d, max_pool2d, max_pool3d": lambda x: F.max_pool1d(x, 2),
    "fractional_max_pool2d, fractional_max_pool3d": lambda x: F.fractional_max_pool2d(
        x.reshape(1, 2, 4),
        2,
        output_size=(1, 2),
        _random_samples=torch.full((1, 1, 2), 0.5),
        return_indices=True,
    ),
    "mode": lambda x: x[:, :2].flip(1).mode(1),
    "copysign, signbit": lambda x: torch.signbit(-x.abs()),
    "unique with dim": lambda x: torch.unique(x[0, :3], dim=0),
    "scaled_dot_product_attention": lambda x: F.scaled_dot_product_attention(
        x.reshape(1, 1, 4, 2), torch.ones(1, 1, 3, 2), torch.ones(1, 1, 3, 2)
    ),
    "convolution, conv_transpose2d": lambda x: F.conv1d(
        x.nan_to_num(1.0).reshape(1, 2, 4).expand(2, 2, 4),
        torch.tensor([1.0, INF, 2.0]).expand(3, 2, 3),
        padding=2,
    ),
    "grid_sample": lambda x: F.grid_sample(torch.ones(1, 1, 3, 3), x.reshape(1, 2, 2, 2)),
    "cdist, pdist, with p = 0 or p = inf": lambda x: torch.cdist(
        x.reshape(4, 2), torch.ones(3, 2), 0.0
    ),
    "lstm, gru, rnn_relu": lambda x: torch.rnn_relu(
        x.reshape(4, 1, 2),
        torch.zeros(1, 1, 2),
        (torch.ones(2, 2), torch.ones(2, 2), torch.zeros(2), torch.zeros(2)),
        has_biases=True,
        num_layers=1,
        dropout=0.0,
        train=False,
        bidirectional=False,
        batch_first=False,
    ),
    "quantize, fake_quantize": lambda x: torch.fake_quantize_per_channel_affine(
        x, torch.full((8,), 0.1), torch.zeros(8), 1, -128, 127
    ),
    "factorizations, determinants and solvers of linalg": lambda x: torch.linalg.lu_factor(
        x.reshape(1, 2, 4)[..., :2] + torch.eye(2)
    ),
}


def test_every_line_of_the_page_has_an_example() -> None:
    table = PAGE.read_text().partition("| operators |")[2].partition("\n\n")[0]
    lines = [line.split("|")[1].strip() for line in table.splitlines()[2:]]
    assert lines == list(DIFFERENT)


@pytest.mark.parametrize("operators", DIFFERENT)
def test_operators_of_the_page_differ(operators: str) -> None:
    """A line of the page whose operators match eager is out of date."""
    with pytest.raises(AssertionError):
        routes.check(DIFFERENT[operators], (X,), "native")
