"""torch.onnx.ops.symbolic: results have the declared dtype, even if torch does not have it."""

import onnx
import pytest
import torch
from models.calling import Calling
from torch.onnx.ops._dtype_mappings import ONNX_DTYPE_TO_TORCH_DTYPE

pytestmark = pytest.mark.captures("auto", "torch.export")

X = torch.randn(2, 4)
FLOAT4 = onnx.TensorProto.FLOAT4E2M1
REAL = [
    number
    for number, dtype in ONNX_DTYPE_TO_TORCH_DTYPE.items()
    if not dtype.is_complex and number != FLOAT4
]


def export(function):
    program = torch.onnx.export(
        Calling(function), (X,), dynamo=True, opset_version=23, verbose=False
    )
    assert program is not None
    onnx.checker.check_model(program.model_proto, full_check=True)
    return program.model_proto


def dtypes(model: onnx.ModelProto) -> list[int]:
    return [output.type.tensor_type.elem_type for output in model.graph.output]


@pytest.mark.parametrize("dtype", REAL, ids=onnx.TensorProto.DataType.Name)
def test_custom_operator(dtype):
    def function(x):
        return torch.onnx.ops.symbolic(
            "my.domain::Pack", (x,), dtype=dtype, shape=x.shape, version=1
        )

    assert dtypes(export(function)) == [dtype]


def test_several_results():
    wanted = [onnx.TensorProto.INT4, onnx.TensorProto.FLOAT16, onnx.TensorProto.UINT4]

    def function(x):
        shapes = [[2, 4], [2, 1], [2, 1]]
        return torch.onnx.ops.symbolic_multi_out(
            "my.domain::Quantize", (x,), dtypes=wanted, shapes=shapes, version=1
        )

    assert dtypes(export(function)) == wanted


def test_int4_between_operators_of_onnx():
    """Quantizes to INT4 and back with ONNX operators."""

    def function(x):
        narrow = torch.onnx.ops.symbolic(
            "Cast", (x,), {"to": int(onnx.TensorProto.INT4)}, dtype=22, shape=x.shape, version=21
        )
        return torch.onnx.ops.symbolic(
            "Cast", (narrow,), {"to": 1}, dtype=torch.float32, shape=x.shape, version=21
        )

    model = export(function)
    values = {info.name: info.type.tensor_type.elem_type for info in model.graph.value_info}
    assert onnx.TensorProto.INT4 in values.values() or not values


def test_pairs_of_4_bit_floats_are_refused():
    """PyTorch treats a pair as one element."""

    def function(x):
        return torch.onnx.ops.symbolic(
            "my.domain::Pack", (x,), dtype=FLOAT4, shape=x.shape, version=1
        )

    text = "no element type for Float4_e2m1fn_x2.* of opset 23"
    with pytest.raises(torch.onnx.OnnxExporterError, match=text):
        export(function)
    pairs = torch.zeros(2, 4, dtype=torch.uint8).view(torch.float4_e2m1fn_x2)
    for called, inputs in ((lambda x: (x, pairs), (torch.ones(2),)), (lambda x: x, (pairs,))):
        with pytest.raises(torch.onnx.OnnxExporterError, match=text):
            torch.onnx.export(called, inputs, opset_version=20, verbose=False)


def test_complex_results_are_refused():
    def function(x):
        return torch.onnx.ops.symbolic(
            "my.domain::Transform", (x,), dtype=torch.complex64, shape=x.shape, version=1
        )

    with pytest.raises(torch.onnx.OnnxExporterError, match="last axis of 2"):
        export(function)
