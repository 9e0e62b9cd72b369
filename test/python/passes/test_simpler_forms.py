"""Forms that more tools take, with eager's numbers."""

import onnx
import pytest
import torch
from models import routes
from torch import Tensor


def dtypes_of_sums(model):
    types = {each.name: each.type.tensor_type.elem_type for each in model.graph.value_info}
    return [types[node.input[0]] for node in model.graph.node if node.op_type == "CumSum"]


@pytest.mark.parametrize("opset", [13, 20])
def test_a_sum_that_is_narrowed_is_of_int32(opset):
    def positions(tokens: Tensor) -> Tensor:
        mask = tokens.ne(1).int()
        return (mask.cumsum(1).type_as(mask) * mask).long() + 1

    tokens, others = torch.randint(0, 3, (2, 9)), torch.randint(0, 3, (3, 5))
    dynamic = [{0: "batch", 1: "sequence"}]
    model = routes.check(positions, (tokens,), "native", (others,), dynamic=dynamic, opset=opset)
    assert dtypes_of_sums(model) == [onnx.TensorProto.INT32]


def test_a_narrowed_sum_wraps():
    def total(x: Tensor) -> Tensor:
        return (x * 1).cumsum(0).to(torch.int32) + 1

    x = torch.tensor([2**31 - 1, 5, -(2**31), 2**30, 2**30], dtype=torch.int32)
    routes.check(total, (x,), "native")


@pytest.mark.parametrize("dynamic", [None, [{0: "batch"}]], ids=["static", "dynamic"])
def test_operands_without_elements_are_not_concatenated(dynamic):
    def rotated(x: Tensor) -> Tensor:
        turned, rest = x[..., :4], x[..., 4:]
        return torch.cat([turned * 2, rest], -1).sin()

    model = routes.check(rotated, (torch.randn(2, 4),), "native", dynamic=dynamic)
    assert [node.op_type for node in model.graph.node] == ["Mul", "Sin"]
