"""Programs that ask for the strides of computed tensors, which kernels choose."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from models.calling import Calling
from models.recording import assert_equal_to_eager, assert_native, exported, function_id, reason_of
from ops.row import Case
from ops.strides import LAYOUTS, outcome
from torch.nn.attention.flex_attention import flex_attention

Tensor = torch.Tensor
X = torch.randn(2, 3, 4, generator=torch.Generator().manual_seed(0))
MEAN, VARIANCE = torch.arange(4.0), torch.arange(1.0, 5.0)


def normalized(x: Tensor) -> Tensor:
    return F.batch_norm(x.transpose(1, 2), MEAN, VARIANCE)


def branch(x: Tensor) -> Tensor:
    y = normalized(x)
    return y if y.is_contiguous() else y * 2


def strides(x: Tensor) -> Tensor:
    y = normalized(x)
    return y * y.stride(-1) + y.stride()[1]


def viewed(x: Tensor) -> Tensor:
    return normalized(x).view(x.shape[0], -1)


def copied(x: Tensor) -> Tensor:
    y = normalized(x)
    y.contiguous().add_(1.0)
    return y


@pytest.mark.parametrize("program", [branch, strides, viewed, copied], ids=function_id)
def test_results_of_a_norm(program: Callable[[Tensor], Tensor]) -> None:
    module = Calling(program)
    exported_program = exported(module, (X,))
    assert_native(exported_program)
    assert_equal_to_eager(exported_program, module, (X,), (X.mT.contiguous().mT,))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_operators_with_kernels_of_their_own(layout: str) -> None:
    weight = torch.ones(3, 3, 3, 3)
    image = LAYOUTS[layout](torch.randn(2, 3, 5, 4))

    def results(x: Tensor) -> Any:
        return (
            [F.batch_norm(x, torch.zeros(3), torch.ones(3)), F.group_norm(x, 3)],
            [F.instance_norm(x), F.layer_norm(x, x.shape[-1:]), F.conv2d(x, weight)],
            [F.max_pool2d(x, 2), F.adaptive_avg_pool2d(x, 2), F.interpolate(x, (3, 3))],
            [x.softmax(1), x.cumsum(1), x.sort(1)[0], torch.nan_to_num(x)],
            [F.pad(x, (1, 1)), x.roll(1, 2), x.flip(2)],
        )

    narrow = LAYOUTS[layout] is LAYOUTS["size 1"]
    if narrow:
        image = image.expand(2, 3, 5, 4)
    found = outcome(Case(results, image))
    assert found == "same" or found.startswith("refused: the program reads strides")


def unique_columns(x: Tensor) -> Tensor:
    y = torch.unique(x[0].round(), dim=1)
    return y if y.is_contiguous() else y * 2


def spectrum(x: Tensor) -> Tensor:
    y = torch.fft.rfftn(x, dim=(0, 1))
    return y.real if y.is_contiguous() else y.imag


def copied_by_dropout(x: Tensor) -> Tensor:
    y = x * 2
    torch.native_dropout(y, 0.5, False)[0].add_(1)
    return y


def resized(x: Tensor) -> Tensor:
    y = F.interpolate(x[None], scale_factor=2, mode="bilinear")
    last = torch.channels_last
    return y.contiguous(memory_format=last) if y.is_contiguous(memory_format=last) else y


def places(x: Tensor) -> Tensor:
    y = torch.nonzero_static(x[0] > 0, size=3)
    return y if y.is_contiguous() else y * 2


def least_squares(x: Tensor) -> Tensor:
    y = torch.linalg.lstsq(x.mT, x[:, 0, :, None])[0]
    return y.expand(2, 3, 2) if y.is_contiguous() else y * 2


def normalized_in_place(x: Tensor) -> Tensor:
    mean, variance = MEAN * 1, VARIANCE * 1
    run = torch.ops.aten._native_batch_norm_legit
    y = run(x.mT, None, None, mean, variance, True, 0.1, 1e-5)[0]
    return y if y.is_contiguous() else y * 2


def reflected(x: Tensor) -> Tensor:
    y = torch.ops.aten.reflection_pad3d(x.expand(2, 1, 2, 3, 4).permute(0, 4, 1, 2, 3), [0, 1] * 3)
    return y if y.is_contiguous() else y * 2


def conjugate(x: Tensor) -> Tensor:
    y = torch.complex(x, x)[:1].expand(2, 3, 4).conj().resolve_conj()
    return y.imag if y.is_contiguous() else y.real


def attention(x: Tensor) -> Tensor:
    q = x.view(2, 3, 2, 2).transpose(1, 2)
    y = flex_attention(q, q, q)
    return y.transpose(1, 2).view(2, 3, 4) if y.transpose(1, 2).is_contiguous() else y


@pytest.mark.parametrize(
    "program",
    [
        unique_columns,
        spectrum,
        copied_by_dropout,
        resized,
        places,
        least_squares,
        normalized_in_place,
        reflected,
        conjugate,
        attention,
    ],
    ids=function_id,
)
def test_kernels_with_an_order_of_their_own(program: Callable[[Tensor], Tensor]) -> None:
    module = Calling(program)
    try:
        found = exported(module, (X,))
    except torch.onnx.OnnxExporterError:
        return  # no route answers
    assert_equal_to_eager(found, module, (X,))


def test_strides_of_kernels_for_meta_tensors() -> None:
    """Operators of others may choose other strides where an argument is not contiguous."""
    x = torch.randn(3, 4, generator=torch.Generator().manual_seed(0))
    quantize = torch.ops.quantized_decomposed.quantize_per_channel

    def quantized(x: Tensor) -> Tensor:
        return quantize(x, torch.ones(3), torch.zeros(3), 0, -128, 127, torch.int8)

    def program(x: Tensor) -> Tensor:
        y = quantized(x[:1].expand(3, 4))
        return y if y.is_contiguous() else y * 2

    assert outcome(Case(quantized, x)) == "same"
    assert reason_of(Calling(program), (x,), None).startswith("the program asks for the layout")
    assert_native(exported(Calling(lambda x: quantized(x.expand(3, 4)).relu()), (x[:1],)))


def test_strides_of_einsum() -> None:
    class Strides(torch.nn.Module):
        def forward(self, x: Tensor) -> Any:
            y = torch.einsum("abc,bcd->dba", x.permute(2, 0, 1), x)
            return [y, *(torch.full((), stride) for stride in y.stride())]

    module = Strides()
    program = exported(module, (torch.randn(2, 3, 4),), ({1: "n"},))
    assert_native(program)
    assert_equal_to_eager(program, module, *((torch.randn(2, n, 4),) for n in (1, 2, 5)))
