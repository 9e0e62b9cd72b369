"""TorchScript calls that eager refuses: the export refuses them, says why, and names the line."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import onnx_native
import pytest
import torch
from onnx_native import _C
from ops import refusals
from ops.rows import ROWS
from torch import Tensor, nn

X = torch.rand(3, 4)


def two_axes_are_one(x: Tensor):
    return x.permute(0, 0)


def no_such_axis(x: Tensor):
    return x.sum(7)


def a_negative_size(x: Tensor):
    return torch.zeros(-3) + x.sum()


def a_stride_of_zero(x: Tensor):
    return nn.functional.conv2d(x[None, None], torch.ones(1, 1, 1, 1), stride=[0, 0])


def a_window_of_zero(x: Tensor):
    return nn.functional.max_pool2d(x[None], [0, 0])


def indices_of_floats(x: Tensor):
    return nn.functional.embedding(x, torch.ones(5, 3))


def a_product_of_two_dtypes(x: Tensor):
    return x @ torch.ones(4, 2, dtype=torch.float64)


def a_sum_of_sizes_that_differ(x: Tensor):
    return x + torch.ones(5)


def a_number_that_does_not_fit(x: Tensor):
    return torch.full([2], 300, dtype=torch.uint8) + x.sum()


def a_write_of_floats_to_bools(x: Tensor):
    return torch.ones(4, dtype=torch.bool).mul_(x.sum(0))


def a_larger_operand_of_a_write(x: Tensor):
    return torch.ones(4).add_(torch.ones(2, 3, 4)) + x


def a_function_without_a_kernel_for_integers(x: Tensor):
    return nn.functional.celu(x.long())


def a_root_of_integers(x: Tensor):
    return torch.cholesky(torch.ones(2, 2, dtype=torch.int64)) + x.sum()


def a_bias_of_integers(x: Tensor):
    return torch.addmm(torch.ones(3, dtype=torch.int64), x, torch.ones(4, 3))


def a_layer_with_a_bias_of_integers(x: Tensor):
    return nn.functional.linear(x, torch.ones(3, 4), torch.ones(3, dtype=torch.int64))


def a_quotient_by_zero(x: Tensor):
    return torch.floor_divide(x.long(), 0)


def no_chunks(x: Tensor):
    return x.chunk(0)[0]


def no_rows_in_a_part(x: Tensor):
    return x.split(0, 1)[0]


def a_convolution_with_a_kernel_of_integers(x: Tensor):
    kernel = torch.ones(1, 1, 1, 1, 1, dtype=torch.int64)
    return torch.conv3d(torch.ones(1, 1, 2, 2, 2), kernel) + x.sum()


def a_loss_of_integers(x: Tensor):
    return nn.functional.huber_loss(x.long(), x)


def a_factorization_of_integers(x: Tensor):
    return torch.geqrf(torch.ones(3, 3, dtype=torch.int64))[0] + x.sum()


def a_sum_with_one_dimension_more(x: Tensor):
    return torch.baddbmm(torch.ones(1, 2, 3, 3), torch.ones(2, 3, 4), torch.ones(2, 4, 3)) + x.sum()


def a_complex_factor(x: Tensor):
    matrix = torch.ones(2, 2, dtype=torch.complex64)
    return torch.addbmm(matrix, matrix, matrix, beta=1j).abs() + x.sum()


def a_negative_stride(x: Tensor):
    return torch.as_strided(x.contiguous(), [2], [-1], 1)


def a_negative_offset(x: Tensor):
    return torch.as_strided(x.contiguous(), [2], [1], -1)


def a_write_by_strides_of_another_size(x: Tensor):
    return torch.as_strided_scatter(torch.ones(4, 3), torch.ones(1, 2, 2), [2, 2], [1, 3]) + x.sum()


def a_write_by_strides_that_overlap(x: Tensor):
    return torch.as_strided_scatter(torch.ones(4, 3), torch.ones(2, 2), [2, 2], [0, 3]) + x.sum()


CALLS = [
    two_axes_are_one,
    no_such_axis,
    a_negative_size,
    a_stride_of_zero,
    a_window_of_zero,
    indices_of_floats,
    a_product_of_two_dtypes,
    a_sum_of_sizes_that_differ,
    a_number_that_does_not_fit,
    a_write_of_floats_to_bools,
    a_larger_operand_of_a_write,
    a_function_without_a_kernel_for_integers,
    a_root_of_integers,
    a_bias_of_integers,
    a_layer_with_a_bias_of_integers,
    a_convolution_with_a_kernel_of_integers,
    a_loss_of_integers,
    a_factorization_of_integers,
    a_sum_with_one_dimension_more,
    a_complex_factor,
    a_negative_stride,
    a_negative_offset,
    a_write_by_strides_of_another_size,
    a_write_by_strides_that_overlap,
    no_chunks,
    no_rows_in_a_part,
]


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("function", CALLS, ids=lambda function: function.__name__)
def test_the_export_says_what_eager_says(function: Callable[..., Any], dynamic: bool) -> None:
    with pytest.raises(Exception) as said:
        function(X)
    inputs = [_C.ScriptInput.tensor("x", torch.float32, ["n" if dynamic else 3, 4])]
    with pytest.raises(onnx_native.ExportError) as caught:
        _C.Program(_C.ScriptSource(torch.jit.script(function), inputs), opset=20)
    assert caught.value.kind == "invalid program"
    eager = str(said.value).splitlines()[0].replace("torch.FloatTensor", "CPUFloatType")
    assert caught.value.cause == f"PyTorch rejects this call: {eager}"
    assert caught.value.operator is not None
    assert "test_refused_calls.py" in str(caught.value.location)


def test_a_quotient_by_zero_is_refused() -> None:
    """A tensor of a dynamic size may have no elements; then eager divides nothing."""
    inputs = [_C.ScriptInput.tensor("x", torch.float32, [3, 4])]
    with pytest.raises(onnx_native.ExportError, match="ZeroDivisionError"):
        _C.Program(_C.ScriptSource(torch.jit.script(a_quotient_by_zero), inputs), opset=20)


def test_attention_without_heads_is_refused() -> None:
    """Eager divides by the number of heads: the process ends with SIGFPE."""

    def attention(x: Tensor):
        one, three = torch.ones(4, 4), torch.ones(12, 4)
        return torch._native_multi_head_attention(
            x, x, x, 4, 0, three, torch.ones(12), one, torch.ones(4)
        )[0]

    inputs = [_C.ScriptInput.tensor("x", torch.float32, [2, 3, 4])]
    with pytest.raises(onnx_native.ExportError, match="heads must be positive, got 0"):
        _C.Program(_C.ScriptSource(torch.jit.script(attention), inputs), opset=20)


def test_a_primitive_is_refused() -> None:
    def a_missing_axis(x: Tensor):
        return torch.ops.prims.sum(x, [7])

    inputs = [_C.ScriptInput.tensor("x", torch.float32, [3, 4])]
    with pytest.raises(onnx_native.ExportError, match="PyTorch rejects this call") as caught:
        _C.Program(_C.ScriptSource(torch.jit.script(a_missing_axis), inputs), opset=20)
    assert caught.value.kind == "invalid program"


def shapes_of_some_sizes(x: Tensor):
    return x.view(-1, 12) + x.unfold(0, 5, 1).sum() + x[:30].reshape(10, 3, 4).sum()


def a_window_that_few_sizes_have(x: Tensor):
    return nn.functional.max_pool2d(x[None], [50, 2]) + x.topk(55, dim=0)[0].sum()


def a_size_that_is_a_number(x: Tensor):
    return x.view(12, 5, 4).sum(0) + (x @ torch.ones(4, 60) @ x).view(5, 12, 4).sum(1)


def sizes_of_two_inputs(x: Tensor, y: Tensor):
    return x[1:] + y


@pytest.mark.parametrize(
    "function", [shapes_of_some_sizes, a_window_that_few_sizes_have, a_size_that_is_a_number]
)
def test_what_eager_accepts_for_some_sizes_is_exported(function: Callable[..., Any]) -> None:
    x = torch.rand(60, 4)
    program = torch.onnx.export(
        torch.jit.script(function), (x,), dynamic_shapes=({0: "n"},), dynamo=True, verbose=False
    )
    assert program is not None
    torch.testing.assert_close(program(x)[0], function(x))


def test_related_sizes_of_two_inputs_are_exported() -> None:
    arguments = (torch.rand(6, 4), torch.rand(5, 4))
    program = torch.onnx.export(
        torch.jit.script(sizes_of_two_inputs),
        arguments,
        dynamic_shapes=({0: "n"}, {0: "m"}),
        dynamo=True,
        verbose=False,
    )
    assert program is not None
    torch.testing.assert_close(program(*arguments)[0], sizes_of_two_inputs(*arguments))


def counts_of_rows(x: Tensor):
    return torch.repeat_interleave(x, torch.tensor([1, 2, 3]), dim=0, output_size=6)


def a_solution(x: Tensor):
    return torch.linalg.solve(x[:, :3], x)


def a_root(x: Tensor):
    return torch.linalg.cholesky(x @ x.mT)


def the_root_of_a_constant(x: Tensor):
    return torch.linalg.cholesky(torch.ones(2, 2)) + x.sum()


def positions_of_integers(x: Tensor):
    return torch.gather(x.long(), 1, torch.tensor([[3, 2], [1, 0]])) + x.long().take(
        torch.ones(2, 2).long()
    )


def a_part_of_integers_by_strides(x: Tensor):
    return torch.as_strided(x.long(), [2, 2], [2, 1], 3)


@pytest.mark.parametrize(
    "function",
    [
        counts_of_rows,
        a_solution,
        a_root,
        the_root_of_a_constant,
        positions_of_integers,
        a_part_of_integers_by_strides,
    ],
)
def test_elements_refuse_no_call(function: Callable[..., Any]) -> None:
    inputs = [_C.ScriptInput.tensor("x", torch.float32, [3, 4])]
    assert _C.Program(_C.ScriptSource(torch.jit.script(function), inputs), opset=20)


def test_an_export_draws_no_random_numbers() -> None:
    def draws(x: Tensor):
        return nn.functional.dropout(x, 0.5, True) + torch.rand(4) + torch.randn_like(x)

    script = torch.jit.script(draws)
    before = torch.get_rng_state()
    inputs = [_C.ScriptInput.tensor("x", torch.float32, [3, 4])]
    _C.Program(_C.ScriptSource(script, inputs), opset=20)
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("title", ["permute of complex", "embedding", "cumsum"])
def test_rows_with_wrong_arguments(title: str) -> None:
    """All rows: `python -m ops.refusals`."""
    (row,) = (row for row in ROWS if row.title == title)
    found = list(refusals.examine(row))
    assert any(stage == "refused" for _, stage, _ in found)
    wrong = [each for each in found if each[1] in ("internal", "accepted")]
    assert not wrong
