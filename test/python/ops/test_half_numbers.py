"""16-bit floats and Python numbers that their dtype rounds."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

FUNCTIONS: list[Callable[[Tensor], Tensor]] = [
    lambda x: x / 1e5,
    lambda x: x / 100_000,
    lambda x: x * 1e-8,
    lambda x: x * 1e5,
    lambda x: 70_000 * x,
    lambda x: x * float("inf"),
    lambda x: x / 0.0,
    lambda x: x * 0.5,
]
# Not in float16, where the product with the rounded number differs in the last bit.
IN_BFLOAT16: list[Callable[[Tensor], Tensor]] = [lambda x: x * 0.1, lambda x: x / 3.3]


class Module(torch.nn.Module):
    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x)


@pytest.mark.parametrize(
    ("dtype", "function"),
    [(torch.float16, f) for f in FUNCTIONS]
    + [(torch.bfloat16, f) for f in FUNCTIONS + IN_BFLOAT16],
)
def test_number(dtype: torch.dtype, function: Callable[[Tensor], Tensor]):
    x = (torch.randn(256) * 1000).to(dtype)
    program = torch.onnx.export(Module(function).eval(), (x,), dynamo=True, verbose=False)
    assert program is not None
    (result,) = program(x)
    assert result.dtype == dtype
    torch.testing.assert_close(result, function(x), rtol=0, atol=0, equal_nan=True)
    if function is FUNCTIONS[-1] and dtype == torch.float16:
        assert [node.op_type for node in program.model_proto.graph.node] == ["Mul"]


WHOLE: list[Callable[[Tensor], Tensor]] = [
    lambda x: x // 2.1,
    lambda x: x // 0.1,
    lambda x: torch.floor_divide(x, -0.3),
    lambda x: torch.div(x, 0.1, rounding_mode="trunc"),
    lambda x: torch.div(x, 3, rounding_mode="floor"),
    lambda x: torch.nn.functional.threshold(x, 0.3, 0.1),
]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("function", WHOLE)
def test_whole_quotients_show_the_number_itself(
    dtype: torch.dtype, function: Callable[[Tensor], Tensor]
) -> None:
    multiples = torch.arange(-20, 20)
    x = torch.cat([multiples * number for number in (0.1, 0.3, 2.1)]).to(dtype)
    program = torch.onnx.export(Module(function).eval(), (x,), dynamo=True, verbose=False)
    assert program is not None
    torch.testing.assert_close(program(x)[0], function(x), rtol=0, atol=0)
