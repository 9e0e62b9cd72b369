"""Calls whose sizes contradict each other, which PyTorch accepts because a tensor is empty."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import onnx_native
import pytest
import torch
from onnx_native import _C
from torch import Tensor

F32 = torch.float32


def a_product_of_three(a: Tensor, b: Tensor):
    return torch._trilinear(a, b, a, [], [], [], [0])


def an_encoder_without_tokens(x: Tensor, weight: Tensor):
    one, wide = torch.ones(4), torch.ones(8, 4)
    return torch._transformer_encoder_layer_fwd(
        x,
        4,
        2,
        torch.ones(12, 4),
        torch.ones(12),
        weight,
        one,
        False,
        False,
        1e-5,
        one,
        one,
        one,
        one,
        wide,
        torch.ones(8),
        wide.t(),
        one,
    )


def segments_of_other_rows(x: Tensor, lengths: Tensor):
    return torch.segment_reduce(x, "max", lengths=lengths, axis=1, unsafe=True)


CALLS: list[tuple[Callable[..., Any], list[tuple[torch.dtype, list[int]]]]] = [
    (a_product_of_three, [(F32, [2, 3]), (F32, [2, 0])]),
    (a_product_of_three, [(F32, [0, 3]), (F32, [2, 3])]),
    (an_encoder_without_tokens, [(F32, [2, 0, 4]), (F32, [4, 0])]),
    # The last one ends the process in eager, which reads past the lengths.
    (segments_of_other_rows, [(F32, [7, 2]), (torch.int64, [0, 4])]),
]


@pytest.mark.parametrize(("function", "types"), CALLS)
def test_the_call_is_refused(function: Callable[..., Any], types: Any) -> None:
    inputs = [
        _C.ScriptInput.tensor(f"x{i}", dtype, sizes) for i, (dtype, sizes) in enumerate(types)
    ]
    with pytest.raises(onnx_native.ExportError) as caught:
        _C.Program(_C.ScriptSource(torch.jit.script(function), inputs), opset=20)
    assert caught.value.kind == "unsupported"
    assert "sizes" in caught.value.cause
    assert "empty" in str(caught.value)


def test_the_native_route_refuses_it_too() -> None:
    class Model(torch.nn.Module):
        def forward(self, a: Tensor, b: Tensor) -> Any:
            return a_product_of_three(a, b)

    with pytest.raises(torch.onnx.OnnxExporterError, match="a tensor is empty"):
        torch.onnx.export(
            Model().eval(), (torch.ones(2, 3), torch.ones(2, 0)), dynamo=True, verbose=False
        )


def segments(x: Tensor, lengths: Tensor):
    return torch.segment_reduce(x, "sum", lengths=lengths)


def test_segments_without_lengths_are_refused_as_in_eager() -> None:
    arguments = (torch.ones(7, 2), torch.ones(0, dtype=torch.int64))
    with pytest.raises(RuntimeError, match=r"min\(\)"):
        segments(*arguments)
    inputs = [_C.ScriptInput.tensor("x", F32, [7, 2]), _C.ScriptInput.tensor("n", torch.int64, [0])]
    with pytest.raises(onnx_native.ExportError, match="at least one length"):
        _C.Program(_C.ScriptSource(torch.jit.script(segments), inputs), opset=20)
