"""Pools of static and dynamic sizes, masks of different counts, empty results, 16-bit floats."""

from collections.abc import Callable, Sequence

import onnx
import pytest
import torch
import torch.nn.functional as F

from ops import checking
from ops.row import Case, Row

ROW = Row("")


def check(
    case: Case, shapes: object = None, others: Sequence[tuple[torch.Tensor, ...]] = ()
) -> None:
    program = torch.onnx.export(
        checking.Calling(case).eval(),
        case.inputs,
        dynamo=True,
        dynamic_shapes=shapes,
        verbose=False,
    )
    assert program is not None
    running = checking.session(program)
    for inputs in (case.inputs, *others):
        checking.compare(ROW, running, case, inputs)


WINDOWS = [(3, 2, 1), (2, 2, 0), (3, 3, 1), (1, 3, 0), (2, 3, 1)]


@pytest.mark.parametrize(("kernel", "stride", "padding"), WINDOWS)
def test_ceil_mode_with_a_static_and_a_dynamic_size(kernel: int, stride: int, padding: int) -> None:
    """The static sizes include those that drop the last window."""

    def pools(*images: torch.Tensor) -> list[object]:
        window = (kernel, stride, padding)
        results: list[object] = []
        for x in images:
            results.append(F.max_pool2d(x, *window, ceil_mode=True, return_indices=True))
            results += [
                F.avg_pool2d(x, *window, ceil_mode=True, count_include_pad=count)
                for count in (False, True)
            ]
        return results

    def images(size: int) -> tuple[torch.Tensor, ...]:
        static = (5, 6, 7, 8)
        return tuple(torch.randn(2, 3, n, size) for n in static) + tuple(
            torch.randn(2, 3, size, n) for n in static
        )

    auto = torch.export.Dim.AUTO
    shapes = {"tensors": tuple([{3: auto}] * 4 + [{2: auto}] * 4)}
    check(Case(pools, *images(9)), shapes, [images(10), images(11)])


def masks(*bits: int) -> torch.Tensor:
    return torch.tensor(bits) == 1


def put_zero(x: torch.Tensor, m: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
    x = x.clone()
    x[m, n] = 0.0
    return x


def test_masks_of_different_counts_are_broadcast() -> None:
    x = torch.randn(4, 3)
    first = (x, masks(1, 0, 0, 0), masks(1, 1, 0))
    others = [
        (x, masks(1, 1, 0, 0), masks(1, 1, 0)),
        (x, masks(1, 1, 1, 0), masks(0, 1, 0)),
        (x, masks(0, 0, 0, 0), masks(0, 1, 0)),
    ]
    check(Case(put_zero, *first), None, others)


@pytest.mark.parametrize(
    ("function", "x"),
    [
        (lambda x: x[:, torch.tensor([7])], torch.zeros(0, 3)),
        (lambda x: x[torch.tensor([7, 9])], torch.zeros(3, 0)),
        (lambda x: x[torch.tensor([7]), :, torch.tensor([9])], torch.zeros(3, 0, 2)),
        (lambda x: x.index_put((torch.tensor([7]),), torch.tensor(1.0)), torch.zeros(3, 0)),
    ],
)
def test_indices_into_an_empty_result_are_not_looked_at(
    function: Callable[[torch.Tensor], torch.Tensor], x: torch.Tensor
) -> None:
    check(Case(function, x))


@pytest.mark.parametrize("size", [(1, 1), (1, 5), (5, 1)])
@pytest.mark.parametrize("image", [(1, 1), (6, 1), (6, 6)])
def test_area_of_one(size: tuple[int, int], image: tuple[int, int]) -> None:
    check(Case(lambda x: F.interpolate(x, size=size, mode="area"), torch.randn(2, 3, *image)))


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
@pytest.mark.parametrize("antialias", [False, True])
def test_images_become_one_pixel_high(mode: str, antialias: bool) -> None:
    def halved(x: torch.Tensor) -> torch.Tensor:
        return F.interpolate(
            x, scale_factor=0.5, mode=mode, antialias=antialias, align_corners=True
        )

    case = Case(halved, torch.randn(2, 3, 5, 6))
    others = [(torch.randn(2, 3, height, 6),) for height in (2, 3, 4, 9)]
    check(case, {"tensors": ({2: torch.export.Dim.AUTO},)}, others)


@pytest.mark.parametrize("pads", [(-1, 2, 0, 0), (2, -1, 1, 1), (3, -2, -1, 2), (-2, 0, 0, -1)])
def test_circular_padding_crops(pads: tuple[int, ...]) -> None:
    x = torch.randn(2, 3, 5, 6)
    auto = torch.export.Dim.AUTO
    case = Case(lambda x: F.pad(x, pads, mode="circular"), x)
    check(case, {"tensors": ({2: auto, 3: auto},)}, [(torch.randn(2, 3, 7, 9),)])


def narrow(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Samples of every family that need a legal form in each dtype and opset."""
    return (
        x.min(),
        x.isnan(),
        x.isinf(),
        torch.zeros_like(x),
        x.new_full((2, 3), 2.5),
        torch.where(x > 0, x, x.new_ones(())),
        x.clamp(-1, 1),
        x.amax(0),
        x.sum(1),
        x.cumsum(0),
        x.sort(1)[0],
        x.argmax(1),
        torch.cat([x, x]),
        x.flip(0),
        x.triu(),
        x[[0, 2]],
        x.masked_fill(x > 1, 0.0),
        F.pad(x, (1, 2)),
        x.softmax(1),
        F.gelu(x),
        F.layer_norm(x, (4,)),
        x @ x.T,
        x.scatter(1, torch.zeros(4, 1, dtype=torch.int64), 1.0),
        F.max_pool1d(x, 2),
        F.avg_pool1d(x, 2),
        F.conv1d(x, x.view(4, 4, 1)),
        torch.einsum("ij,jk->ik", x, x),
        torch.round(x),
        x.sign(),
        x.remainder(2.0),
        x.expand(2, 4, 4),
        x.repeat(2, 1),
    )


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_sixteen_bits_at_all_opsets(dtype: torch.dtype) -> None:
    x = torch.tensor([[k * 0.25 - 2 + j for k in range(4)] for j in range(4)], dtype=dtype)
    case = Case(narrow, x)
    captured = torch.export.export(checking.Calling(case).eval(), case.inputs)
    for opset in range(13, 27):
        program = checking.export_program(captured, opset)
        onnx.checker.check_model(program.model_proto, full_check=True)
        checking.compare(ROW, checking.session(program), case, case.inputs)
