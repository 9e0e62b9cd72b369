"""Types that the recorder's meta kernels compute, compared with PyTorch's own in many layouts.

The comparison itself is in conftest.py: each call of a recorded program runs through both.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from models.calling import Calling
from models.recording import Function, assert_native, exported, function_id, reason_or_none

Tensor = torch.Tensor
W, V, V2 = torch.ones(6, 4, 3, 3), torch.ones(4), torch.ones(6)


def elementwise(x: Tensor) -> Any:
    return (
        [f(x) for f in (F.relu, F.gelu, F.silu, F.hardswish, F.mish, F.elu, F.softplus)],
        [x + x[:1], x * 2, 1 - x, x / x.flip(0), x**2, x // 2, x % 3, torch.rsub(x, x, alpha=2)],
        [x > 0, x == x, torch.logical_and(x, x > 1), ~(x > 0), x.logical_not(), (x > 0) | (x < 1)],
        [torch.where(x > 0, x, 0.0), torch.where(x > 0, x.double(), x), x.clamp(0, 1)],
        [x.masked_fill(x > 0, 0.0), x[:1].masked_fill(x > 0, 1.0), x.clone().relu_()],
        [
            x.clone().masked_fill_(x > 0, 2.0),
            x.long() / 2,
            x.long() // 2,
            x.half() + 1,
            x.int() * x,
        ],
    )


def reductions(x: Tensor) -> Any:
    return (
        [x.mean(), x.sum(), x.mean(1), x.sum((0, 2), keepdim=True), x.amax(1), x.argmax(1)],
        [x.max(1), x.all(), x.any(1), x.cumsum(1), x.norm(dim=1), x.topk(2, 1), x.sort(1)],
        [x.softmax(1), x.log_softmax(-1), x.prod(1), x.var(1), x.std()],
    )


def joined(x: Tensor) -> Any:
    return (
        [torch.stack([x, x], dim) for dim in (0, 1, -1)],
        [torch.cat([x, x], 1), x.roll((1, -1), (0, 2)), x.roll(2), x.tril(), x.flip(1)],
        [torch.stack([x, x.double()]), x.gather(1, x.long() * 0), x[:, x[0, :, 0, 0].long() * 0]],
    )


def norms(x: Tensor) -> Any:
    return (
        [
            F.layer_norm(x, x.shape[-1:]),
            F.layer_norm(x, x.shape[2:], None, torch.ones(x.shape[2:])),
        ],
        [F.group_norm(x, 2, V, V), F.group_norm(x, 4), F.instance_norm(x), F.rms_norm(x, (5,))],
        [
            F.batch_norm(x, V, V),
            F.batch_norm(x, V, V, V, V),
            F.batch_norm(x, None, None, training=True),
        ],
        [F.batch_norm(x.double(), V.double(), V.double()), F.layer_norm(x.half(), x.shape[-1:])],
    )


def convolutions(x: Tensor) -> Any:
    return (
        [F.conv2d(x, W), F.conv2d(x, W, V2, 2, 1), F.conv2d(x, W, None, (1, 2), (0, 3), (2, 1))],
        [F.conv2d(x, W[:, :2], padding="same", groups=2), F.conv2d(x, W, padding="valid")],
        [F.conv_transpose2d(x, W.transpose(0, 1), V2, 2, 1, 1), F.conv2d(x[0], W)],
        [F.conv_transpose2d(x, W[:4], None, (2, 3), 0, (1, 2), 2)],
        [F.conv3d(x[:, None], torch.ones(1, 1, 1, 2, 2)), F.conv1d(x[:, :, 0], W[..., 0])],
    )


def images(x: Tensor) -> Any:
    return (
        [F.max_pool2d(x, 2, 1, 1), F.avg_pool2d(x, 2), F.adaptive_avg_pool2d(x, (2, 3))],
        [F.adaptive_avg_pool2d(x, 1), F.adaptive_avg_pool2d(x[0], (None, 1))],
        [F.interpolate(x, scale_factor=2), F.interpolate(x, size=(3, 4), mode="bilinear")],
        [F.pad(x, (1, 1, 0, 1), mode) for mode in ("constant", "reflect", "replicate")],
    )


def products(x: Tensor) -> Any:
    y = x.transpose(-1, -2)
    return (
        [
            x @ y,
            torch.bmm(x[0], y[0]),
            F.linear(x, torch.ones(3, 5), torch.ones(3)),
            x @ x[0, 0, 0],
        ],
        [F.scaled_dot_product_attention(x, x, x), torch.baddbmm(x[0, :, :, :1], x[0], y[0])],
        [torch.addmm(torch.ones(6), x[0, 0], y[0, 0]), torch.einsum("bcij,bckj->bcik", x, x)],
    )


def step(x: Tensor) -> Tensor:
    return torch.cat([x, x], 3)[..., ::2]


LAYOUTS: dict[str, Callable[[Tensor], Tensor]] = {
    "contiguous": lambda x: x,
    "channels_last": lambda x: x.contiguous(memory_format=torch.channels_last),
    "transposed": lambda x: x.transpose(2, 3).contiguous().transpose(2, 3),
    "moved": lambda x: x.movedim(0, 3).contiguous().movedim(3, 0),
    "expanded": lambda x: x[:1].expand(2, -1, -1, -1),
    "step": step,
    "one": lambda x: x[:1],
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(
    "function",
    [elementwise, reductions, joined, norms, convolutions, images, products],
    ids=function_id,
)
def test_types(function: Function, layout: str, dynamic: bool) -> None:
    def program(x: Tensor) -> Any:
        return function(LAYOUTS[layout](x))

    shapes = (({0: "batch"},),) if dynamic and layout not in ("expanded", "one") else None
    reason = reason_or_none(Calling(program), (torch.randn(2, 4, 6, 5),), shapes)
    assert reason is None, reason


HALF = torch.ones(4).half()


def saved_by_batch_norm(x: Tensor) -> Any:
    return torch.native_batch_norm(x, HALF, HALF, None, None, True, 0.1, 1e-5)[1:]


def saved_by_a_functional_batch_norm(x: Tensor) -> Any:
    return torch.ops.aten._native_batch_norm_legit_functional(
        x, HALF, HALF, HALF * 0, HALF, True, 0.1, 1e-5
    )[1:3]


def saved_by_layer_norm(x: Tensor) -> Any:
    return torch.native_layer_norm(x, [5], None, None, 1e-5)[1:]


def saved_by_group_norm(x: Tensor) -> Any:
    return torch.native_group_norm(x, HALF, HALF, 2, 4, 30, 2, 1e-5)[1:]


@pytest.mark.parametrize(
    "function",
    [
        saved_by_batch_norm,
        saved_by_a_functional_batch_norm,
        saved_by_layer_norm,
        saved_by_group_norm,
    ],
    ids=function_id,
)
def test_saved_statistics_have_the_dtype_of_the_cpu(function: Function) -> None:
    x = torch.randn(2, 4, 6, 5).half()
    program = exported(Calling(function), (x,))
    assert_native(program)
    assert [value.dtype for value in program(x)] == [value.dtype for value in function(x)]
