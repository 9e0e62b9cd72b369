"""Programs that ask how tensors lie in memory are right at all sizes that their guards allow."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import onnx_native
import pytest
import torch
from models.calling import Calling
from models.recording import exported, function_id
from models.running import assert_same

Tensor = torch.Tensor
Sizes = tuple[int, int]


def stride_of_a_column(x: Tensor) -> Any:
    return x[0, :, 0] * x[0, :, 0].stride(0)


def contiguous_column(x: Tensor) -> Any:
    y = x[0, :, 0].sigmoid()[:, None].expand(-1, 3)[0]
    return x[0, 0, :2] + 1 if x[:2, 0, 0].is_contiguous() else y


def stride_of_a_slice(x: Tensor) -> Any:
    y = x[:, :, :2]
    return y * y.stride(0) + y.stride(1)


def strides_of_a_reshape(x: Tensor) -> Any:
    y = x.transpose(0, 1).reshape(x.shape[1], x.shape[0], 2, -1)
    return x * y.stride(0) + y.stride(1) * y.stride(2)


def strides_of_products(x: Tensor) -> Any:
    y = x.permute(2, 0, 1) * 2
    return y + y.stride(0) + y.stride(1) * y.stride(2)


def strides_of_a_flip(x: Tensor) -> Any:
    y = x.transpose(1, 2).flip(0)
    return y + y.stride(1) + y.stride(2)


def strides_of_a_norm(x: Tensor) -> Any:
    y = torch.nn.functional.instance_norm(x.transpose(1, 2))
    return y + y.stride(0) + y.stride(1) + y.stride(2)


def contiguous_sum(x: Tensor) -> Any:
    y = x.permute(2, 1, 0).cumsum(0)
    return y + 1 if y.is_contiguous() else y * 2


def view_of_a_stack(x: Tensor) -> Any:
    y = torch.stack([x.transpose(0, 1), x.transpose(0, 1)], 2)
    return y.contiguous().view(-1) if y.is_contiguous() else y.permute(3, 0, 1, 2)


def offset_of_a_row(x: Tensor) -> Any:
    return x[1] * x[1].storage_offset() + x[1, 1:].storage_offset()


def dense(x: Tensor) -> Any:
    kept = x.transpose(0, 1)[:, :, :2]
    is_dense = torch.ops.aten.is_non_overlapping_and_dense(kept)
    return x * 3 if is_dense else x + torch.ops.aten.is_non_overlapping_and_dense(x.mT)


def copy_of_a_transpose(x: Tensor) -> Any:
    y = x + 1
    y.transpose(0, 1).contiguous().mul_(2)
    return y


def copy_of_a_slice(x: Tensor) -> Any:
    y = x + 1
    y[:, :2].contiguous().mul_(2)
    return y


def reshaped_slice(x: Tensor) -> Any:
    y = x + 1
    y[:, :2].reshape(-1).mul_(2)
    return y


def viewed_slice(x: Tensor) -> Any:
    return x[:, :2].view(-1)


def contiguous_slice(x: Tensor) -> Any:
    y = x[:, :2]
    return y + 1 if y.is_contiguous() else y * 2


def channels_last(x: Tensor) -> Any:
    y = x[None].permute(0, 3, 1, 2).relu()
    return y + 1 if y.is_contiguous(memory_format=torch.channels_last) else y * 2


def in_a_branch(x: Tensor) -> Any:
    y = x.transpose(0, 1)
    return torch.cond(x.sum() > 0, lambda: y * y.stride(0), lambda: y + y.stride(1))


def written(x: Tensor) -> Any:
    y = x.transpose(0, 1) * 1
    y.add_(1).unsqueeze_(0)
    return y * y.stride(0) + y.stride(2)


PROGRAMS = [
    stride_of_a_column,
    contiguous_column,
    stride_of_a_slice,
    strides_of_a_reshape,
    strides_of_products,
    strides_of_a_flip,
    strides_of_a_norm,
    contiguous_sum,
    view_of_a_stack,
    offset_of_a_row,
    dense,
    copy_of_a_transpose,
    copy_of_a_slice,
    reshaped_slice,
    viewed_slice,
    contiguous_slice,
    channels_last,
    in_a_branch,
    written,
]
SIZES = [(3, 4), (2, 2), (2, 5), (5, 2), (3, 1), (2, 1), (1, 3), (1, 1)]
NAMES = {0: "n", 1: "m"}


def image(size: Sizes) -> Tensor:
    return torch.randn(*size, 6, generator=torch.Generator().manual_seed(sum(size)))


def assert_right_where_guards_allow(program: Callable[[Tensor], Any], example: Sizes) -> None:
    module = Calling(program)
    try:
        program(image(example))
        model = exported(module, (image(example),), ((NAMES,),))
    except (RuntimeError, IndexError, torch.onnx.OnnxExporterError):
        return
    guards = model.export_report["capture"]["guards"]
    for size in SIZES:
        if not all(
            eval(guard["condition"], dict(zip("nm", size, strict=True))) for guard in guards
        ):
            continue
        try:
            expected = program(image(size))
        except (RuntimeError, IndexError):
            continue
        assert_same(model(image(size)), [expected])


@pytest.mark.parametrize("program", PROGRAMS, ids=function_id)
def test_programs(program: Callable[[Tensor], Any]) -> None:
    assert_right_where_guards_allow(program, (3, 4))


@pytest.mark.parametrize("program", PROGRAMS, ids=function_id)
def test_an_example_whose_sizes_are_others(program: Callable[[Tensor], Any]) -> None:
    with onnx_native.options(capture="native"):
        assert_right_where_guards_allow(program, (2, 2))


@pytest.mark.parametrize(
    ("program", "conditions"),
    [
        (stride_of_a_column, []),
        (stride_of_a_slice, []),
        (offset_of_a_row, ["n > 1"]),
        (strides_of_a_reshape, ["m != 1", "n != 1"]),
        (strides_of_products, ["m != 1", "n != 1"]),
        (copy_of_a_transpose, []),
        (copy_of_a_slice, []),
    ],
)
def test_guards(program: Callable[[Tensor], Any], conditions: list[str]) -> None:
    with onnx_native.options(branches="example"):
        model = exported(Calling(program), (image((3, 4)),), ((NAMES,),))
    found = model.export_report["capture"]
    assert found["by"] == "native"
    assert sorted(guard["condition"] for guard in found["guards"]) == conditions
