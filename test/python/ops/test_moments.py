"""The moments that norms return: 16-bit floats keep their dtype unless a parameter is float32."""

import pytest
import torch
from models import routes

aten = torch.ops.aten


def norms(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> list[torch.Tensor]:
    n, c, h = x.shape
    last = weight[:1].expand(h).contiguous()
    return [
        *aten.native_layer_norm(x, [h], last, last, 1e-5),
        *aten.native_group_norm(x, weight, bias, n, c, h, 2, 1e-5),
        *aten.native_batch_norm(x, weight, bias, None, None, True, 0.1, 1e-5),
    ]


@pytest.mark.parametrize("opset", [13, 16, 18, 26])
@pytest.mark.parametrize("parameters", ["narrow", "float32"])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_dtypes(dtype: torch.dtype, parameters: str, opset: int) -> None:
    other = torch.float32 if parameters == "float32" else dtype
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(3, 4, 6, generator=generator).to(dtype)
    weight, bias = (torch.randn(4, generator=generator).to(other) for _ in range(2))
    inputs = (x, weight, bias)
    results = routes.run(routes.session(routes.export(norms, inputs, "trace", opset=opset)), inputs)
    for result, wanted in zip(results, norms(*inputs), strict=True):
        assert result.dtype is wanted.dtype
        torch.testing.assert_close(result.float(), wanted.float(), rtol=2e-2, atol=2e-2)
