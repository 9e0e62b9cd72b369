"""Linear modules that hold several integers of 4 bits in each integer of 32, as GPTQ and AWQ do."""

from __future__ import annotations

import pathlib

import numpy as np
import onnx
import onnxruntime as ort
import pytest
import torch
from torch import nn

BITS, GROUP = 4, 32
PER_INTEGER = 32 // BITS
AWQ_ORDER = [0, 2, 4, 6, 1, 3, 5, 7]
AWQ_REVERSE_ORDER = [0, 4, 1, 5, 2, 6, 3, 7]


def packed(values: torch.Tensor, axis: int, order: list[int] | None = None) -> torch.Tensor:
    """Packs integers of 4 bits along an axis, the first of them in the lowest bits."""
    groups = values.long().movedim(axis, -1).unflatten(-1, (-1, PER_INTEGER))
    groups = groups[..., order or list(range(PER_INTEGER))]
    joined = (groups << torch.arange(0, 32, BITS)).sum(-1)
    return joined.to(torch.int32).movedim(-1, axis).contiguous()


class Quantized(nn.Module):
    """What both kinds of modules hold: values of 4 bits, and zero points and scales of groups."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.values = torch.randint(0, 16, (inputs, outputs))
        self.zeros = torch.randint(1, 16, (inputs // GROUP, outputs))
        self.register_buffer("scales", torch.rand(inputs // GROUP, outputs) / 200)
        self.register_buffer("bias", torch.randn(outputs))


class Gptq(Quantized):
    """QuantLinear of AutoGPTQ, qlinear_cuda_old.py without the kernels for CUDA."""

    def __init__(self, inputs: int, outputs: int, act_order: bool = False) -> None:
        super().__init__(inputs, outputs)
        self.register_buffer("qweight", packed(self.values, 0))
        self.register_buffer("qzeros", packed(self.zeros - 1, 1))
        groups = torch.arange(inputs) // GROUP
        groups = groups[torch.randperm(inputs)] if act_order else groups
        self.register_buffer("g_idx", groups.to(torch.int32))
        self.register_buffer("wf", torch.arange(0, 32, BITS, dtype=torch.int32).unsqueeze(0))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        zeros = torch.bitwise_right_shift(
            torch.unsqueeze(self.qzeros, 2).expand(-1, -1, 32 // BITS), self.wf.unsqueeze(0)
        ).to(torch.int16)
        zeros = torch.bitwise_and(zeros, (2**BITS) - 1)
        zeros = (zeros + 1).reshape(self.scales.shape)
        weight = torch.bitwise_right_shift(
            torch.unsqueeze(self.qweight, 1).expand(-1, 32 // BITS, -1), self.wf.unsqueeze(-1)
        ).to(torch.int16)
        weight = torch.bitwise_and(weight, (2**BITS) - 1)
        weight = weight.reshape(weight.shape[0] * weight.shape[1], weight.shape[2])
        groups = self.g_idx.long()
        weights = self.scales[groups] * (weight - zeros[groups])
        return torch.matmul(x, weights) + self.bias


class Awq(Quantized):
    """WQLinear_GEMM of AutoAWQ, awq/utils/packing_utils.py without the kernels for CUDA."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__(inputs, outputs)
        self.register_buffer("qweight", packed(self.values, 1, AWQ_ORDER))
        self.register_buffer("qzeros", packed(self.zeros, 1, AWQ_ORDER))

    def unpacked(self, tensor: torch.Tensor) -> torch.Tensor:
        shifts = torch.arange(0, 32, BITS, device=tensor.device)
        values = torch.bitwise_right_shift(tensor[:, :, None], shifts[None, None, :]).to(torch.int8)
        values = values.view(values.shape[0], -1)
        order = torch.arange(values.shape[-1], dtype=torch.int32, device=tensor.device)
        order = order.view(-1, 32 // BITS)[:, AWQ_REVERSE_ORDER].view(-1)
        return torch.bitwise_and(values[:, order], (2**BITS) - 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        scales = self.scales.repeat_interleave(GROUP, dim=0)
        zeros = self.unpacked(self.qzeros).repeat_interleave(GROUP, dim=0)
        weight = (self.unpacked(self.qweight) - zeros) * scales
        return torch.matmul(x, weight) + self.bias


MODULES = {
    "gptq": lambda: Gptq(1024, 1056),
    "gptq-act-order": lambda: Gptq(1024, 1056, act_order=True),
    "awq": lambda: Awq(1024, 1056),
}


@pytest.mark.parametrize("opset", [18, 21])
@pytest.mark.parametrize("kind", MODULES)
def test_equals_eager(kind: str, opset: int, tmp_path: pathlib.Path) -> None:
    torch.manual_seed(0)
    model, x = MODULES[kind]().eval(), torch.randn(3, 1024)
    # The module's own arithmetic is that of its values.
    groups = getattr(model, "g_idx", torch.arange(1024) // GROUP).long()
    weight = (model.values - model.zeros[groups]) * model.scales[groups]
    torch.testing.assert_close(model(x), x @ weight + model.bias)
    path = tmp_path / "model.onnx"
    torch.onnx.export(
        model,
        (x,),
        f=path,
        dynamo=True,
        opset_version=opset,
        verbose=False,
        external_data=False,
        dynamic_shapes=({0: "batch"},),
    )
    proto = onnx.load(path)
    onnx.checker.check_model(proto, full_check=True)
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    for rows in (3, 1):
        x = torch.randn(rows, 1024)
        (actual,) = session.run(None, {session.get_inputs()[0].name: x.numpy()})
        np.testing.assert_allclose(actual, model(x).numpy(), rtol=1e-4, atol=1e-4)
    # The packed weights are in the file, not the real numbers that they stand for.
    held = sum(buffer.nbytes for buffer in model.buffers())
    sizes = [size_of(one) for one in proto.graph.initializer]
    assert sum(sizes) <= 1.1 * held
    if opset < 21:
        return
    assert [node.op_type for node in proto.graph.node] == ["DequantizeLinear"] + (
        ["Gather"] if kind == "gptq-act-order" else []
    ) + ["MatMul", "Add"]
    options = ort.SessionOptions()
    options.log_severity_level = 3
    options.optimized_model_filepath = str(tmp_path / "optimized.onnx")
    ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    operators = [node.op_type for node in onnx.load(options.optimized_model_filepath).graph.node]
    assert operators.count("MatMulNBits") == 1
    assert "DequantizeLinear" not in operators


def size_of(initializer: onnx.TensorProto) -> int:
    array = onnx.numpy_helper.to_array(initializer)
    is_packed = initializer.data_type in (onnx.TensorProto.UINT4, onnx.TensorProto.INT4)
    return array.size // 2 if is_packed else array.nbytes


def exported(model: nn.Module, x: torch.Tensor) -> onnx.ModelProto:
    program = torch.onnx.export(model, (x,), dynamo=True, opset_version=21, verbose=False)
    assert program is not None
    proto: onnx.ModelProto = program.model_proto
    return proto


def test_zero_points_of_16_keep_their_arithmetic() -> None:
    """GPTQ's first format adds 1 to a zero point, so that 4 bits may not hold it."""
    torch.manual_seed(0)
    model, x = Gptq(64, 32).eval(), torch.randn(2, 64)
    model.zeros[0, 0] = 16
    model.qzeros.copy_(packed(model.zeros - 1, 1))
    check_arithmetic(model, x)


def check_arithmetic(model: nn.Module, x: torch.Tensor) -> None:
    """The model has no DequantizeLinear and equals eager."""
    proto = exported(model, x)
    assert "DequantizeLinear" not in {node.op_type for node in proto.graph.node}
    session = ort.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    (actual,) = session.run(None, {"x": x.numpy()})
    np.testing.assert_allclose(actual, model(x).numpy(), rtol=1e-4, atol=1e-4)


def test_groups_of_different_sizes_keep_their_arithmetic() -> None:
    torch.manual_seed(0)
    model, x = Gptq(64, 32).eval(), torch.randn(2, 64)
    model.g_idx[:33] = 0
    check_arithmetic(model, x)


def test_weights_change_with_the_module(tmp_path: pathlib.Path) -> None:
    """They are unpacked when they are written; the groups are those of the export."""
    torch.manual_seed(0)
    model, x = Gptq(64, 32).eval(), torch.randn(2, 64)
    program = torch.onnx.export(model, (x,), dynamo=True, opset_version=21, verbose=False)
    assert program is not None
    model.qweight.bitwise_not_()
    model.scales.mul_(2)
    program.save(tmp_path / "model.onnx")
    session = ort.InferenceSession(tmp_path / "model.onnx", providers=["CPUExecutionProvider"])
    (actual,) = session.run(None, {"x": x.numpy()})
    np.testing.assert_allclose(actual, model(x).numpy(), rtol=1e-2, atol=1e-2)
    model.g_idx.copy_(model.g_idx.flip(0))
    with pytest.raises(Exception, match="g_idx"):
        program.save(tmp_path / "wrong.onnx")
    assert not (tmp_path / "wrong.onnx").exists()
