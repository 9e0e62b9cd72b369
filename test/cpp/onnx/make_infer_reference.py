"""Writes infer_reference_test.cpp: the results of onnx.shape_inference for single nodes.

Run this script again after adding a case: python test/cpp/onnx/make_infer_reference.py
"""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

DTYPES = {
    "f32": TensorProto.FLOAT,
    "f64": TensorProto.DOUBLE,
    "f16": TensorProto.FLOAT16,
    "bool": TensorProto.BOOL,
    "i8": TensorProto.INT8,
    "u8": TensorProto.UINT8,
    "i32": TensorProto.INT32,
    "i64": TensorProto.INT64,
}
NAMES = {number: name for name, number in DTYPES.items()}
Case = tuple[str, list[str], dict[str, Any], int, int]


def case(
    op: str, inputs: str, outputs: int = 1, opset: int = 23, **attributes: int | str | list[int]
) -> Case:
    return op, [text.strip() for text in inputs.split(";")], attributes, outputs, opset


def pools() -> list[Case]:
    rows = []
    for size in (7, 8, 9, 10, 11):
        for kernel, stride, pad, ceil, dilation in (
            (3, 2, 1, 0, 1),
            (3, 2, 1, 1, 1),
            (2, 2, 0, 1, 1),
            (2, 3, 1, 1, 1),
            (3, 1, 0, 1, 2),
            (3, 2, 0, 0, 2),
        ):
            rows.append(
                case(
                    "MaxPool",
                    f"f32[2,3,{size}]",
                    2,
                    kernel_shape=[kernel],
                    strides=[stride],
                    pads=[pad, pad],
                    ceil_mode=ceil,
                    dilations=[dilation],
                )
            )
            rows.append(
                case(
                    "ConvTranspose",
                    f"f32[2,3,{size}]; f32[3,4,{kernel}]",
                    strides=[stride],
                    pads=[pad, pad],
                    dilations=[dilation],
                    group=1,
                    output_padding=[stride - 1],
                )
            )
    return rows


def slices() -> list[Case]:
    big = 2**63 - 1
    bounds = (-big, -11, -3, 0, 4, 12, big)
    return [
        case("Slice", f"f32[2,10]; i64{{{start}}}; i64{{{end}}}; i64{{1}}; i64{{{step}}}")
        for start in bounds
        for end in bounds
        for step in (1, 3, -1, -4)
    ]


def singles() -> list[Case]:
    reductions = [
        "L1",
        "L2",
        "LogSum",
        "LogSumExp",
        "Max",
        "Mean",
        "Min",
        "Prod",
        "Sum",
        "SumSquare",
    ]
    unary = "Abs Acos Ceil Celu Elu Erf Exp Gelu HardSigmoid HardSwish Hardmax LeakyRelu Log Mish"
    unary += " LogSoftmax LpNormalization Neg Reciprocal Relu Round Selu Shrink Sigmoid Sign"
    unary += " Softmax Softplus Softsign Sqrt Tanh ThresholdedRelu Trilu IsNaN IsInf"
    rows = [case(op, "f32[2,3]") for op in unary.split()]
    rows += [case(f"Reduce{kind}", "f32[2,3,4]; i64{1,-1}", keepdims=0) for kind in reductions]
    rows += [case(f"Reduce{kind}", "f32[2,3,4]; i64{0}") for kind in reductions]
    rows += [
        case(op, "f32[2,1,4]; f32[3,1]")
        for op in ["Add", "Sub", "Mul", "Div", "Pow", "Less", "Equal"]
    ]
    rows += [case(op, "bool[2,1,4]; bool[3,1]") for op in ["And", "Or", "Xor"]]
    rows += [case(op, "f32[2,1]; f32[3]; f32[]") for op in ["Max", "Min", "Sum", "Mean"]]
    rows += [
        case("Where", "bool[2,1]; f32[3]; f32[4,1,1]"),
        case("Cast", "f32[2]", to=10),
        case("CastLike", "f32[2]; i64[5]"),
        case("Clip", "f32[2]; f32[]; f32[]"),
        case("PRelu", "f32[2,3]; f32[3]"),
        case("Dropout", "f32[2,3]", 2),
        case("CumSum", "f32[2,3]; i64(1)"),
        case("Shape", "f32[2,3,4]", start=1, end=-1),
        case("Size", "f32[2,3]"),
        case("Reshape", "f32[2,3,4]; i64{0,-1,2}"),
        case("Reshape", "f32[2,3,4]; i64{-1}"),
        case("Reshape", "f32[0,3]; i64{3,0}", allowzero=1),
        case("Flatten", "f32[2,3,4]", axis=2),
        case("Flatten", "f32[2,3,4]", axis=-1),
        case("Squeeze", "f32[1,3,1]; i64{-1}"),
        case("Squeeze", "f32[1,3,1]"),
        case("Unsqueeze", "f32[2,3]; i64{0,-1}"),
        case("Transpose", "f32[2,3,4]", perm=[1, 2, 0]),
        case("Expand", "f32[3,1]; i64{2,1,4}"),
        case("Tile", "f32[2,3]; i64{2,2}"),
        case("Concat", "f32[2,3]; f32[2,4]", axis=-1),
        case("Split", "f32[2,7]", 3, axis=1, num_outputs=3),
        case("Split", "f32[2,7]; i64{3,4}", 2, axis=1),
        case("Pad", "f32[2,3]; i64{1,0,2,3}"),
        case("Pad", "f32[2,3]; i64{-1,2}; ; i64{1}"),
        case("DepthToSpace", "f32[1,8,2,3]", blocksize=2),
        case("SpaceToDepth", "f32[1,2,4,6]", blocksize=2),
        case("CenterCropPad", "f32[1,2,4]; i64{5,3}", axes=[1, 2]),
        case("Gather", "f32[5,6]; i64[2,3]", axis=1),
        case("GatherElements", "f32[5,6]; i64[2,6]"),
        case("GatherND", "f32[2,3,4]; i64[2,1]", batch_dims=1),
        case("ScatterElements", "f32[5,6]; i64[2,6]; f32[2,6]"),
        case("ScatterND", "f32[5,6]; i64[2,1]; f32[2,6]"),
        case("OneHot", "i64[2,3]; i64{7}; f32[2]", axis=1),
        case("TopK", "f32[2,9]; i64{4}", 2),
        case("ArgMax", "f32[2,9]", axis=1, keepdims=0),
        case("ArgMin", "f32[2,9]", axis=-1),
        case("Range", "i64(2); i64(11); i64(3)"),
        case("Range", "i64(9); i64(2); i64(-2)"),
        case("ConstantOfShape", "i64{2,3}"),
        case("EyeLike", "f32[2,3]", dtype=7),
        case("RandomNormal", "", shape=[2, 3]),
        case("RandomUniformLike", "f32[2,3]"),
        case("Multinomial", "f32[2,3]", sample_size=5),
        case("Bernoulli", "f32[2,3]"),
        case("HannWindow", "i64(5)"),
        case("BitShift", "u8[2,1]; u8[3]", direction="LEFT"),
        case("MatMul", "f32[2,1,3,4]; f32[5,4,6]"),
        case("MatMul", "f32[4]; f32[5,4,6]"),
        case("MatMul", "f32[2,4]; f32[4]"),
        case("MatMulInteger", "u8[2,4]; i8[4,3]"),
        case("Gemm", "f32[4,2]; f32[3,4]; f32[3]", transA=1, transB=1),
        case("Einsum", "f32[2,3,4]; f32[2,4,5]", equation="bij,bjk->bik"),
        case("Einsum", "f32[2,3,4]", equation="...ij->...ji"),
        case("Det", "f32[2,3,3]"),
        case("Conv", "f32[2,4,9,8]; f32[6,2,3,3]", group=2, pads=[1, 1, 1, 1], strides=[2, 1]),
        case("Conv", "f32[2,4,9]; f32[6,4,3]", auto_pad="SAME_LOWER", strides=[2]),
        case("Conv", "f32[2,4,9]; f32[6,4,3]", auto_pad="VALID", dilations=[2]),
        case("ConvInteger", "u8[2,4,9]; u8[6,4,3]"),
        case(
            "ConvTranspose", "f32[2,4,9]; f32[4,3,3]", group=2, auto_pad="SAME_UPPER", strides=[2]
        ),
        case("DeformConv", "f32[1,4,9,9]; f32[6,4,3,3]; f32[1,18,7,7]"),
        case("LpPool", "f32[2,3,8]", kernel_shape=[3], strides=[2]),
        case("GlobalMaxPool", "f32[2,3,8,8]"),
        case("MaxUnpool", "f32[2,3,4]; i64[2,3,4]", kernel_shape=[2], strides=[2]),
        case("Col2Im", "f32[1,12,9]; i64{4,4}; i64{2,2}"),
        case("BatchNormalization", "f32[2,3]; f32[3]; f32[3]; f32[3]; f32[3]"),
        case("LayerNormalization", "f32[2,3,4]; f32[4]", 3),
        case("InstanceNormalization", "f32[2,3,4]; f32[3]; f32[3]"),
        case("RMSNormalization", "f32[2,3,4]; f32[4]"),
        case(
            "LSTM",
            "f32[5,2,3]; f32[2,32,3]; f32[2,32,8]",
            3,
            hidden_size=8,
            direction="bidirectional",
        ),
        case("GRU", "f32[2,5,3]; f32[1,24,3]; f32[1,24,8]", 2, hidden_size=8, layout=1),
        case("Attention", "f32[2,8,5,4]; f32[2,2,6,4]; f32[2,2,6,3]"),
        case("Attention", "f32[2,5,32]; f32[2,6,8]; f32[2,6,4]", q_num_heads=8, kv_num_heads=2),
        case("Resize", "f32[1,2,4,5]; ; ; i64{1,2,8,9}"),
        case("GridSample", "f32[1,2,4,5]; f32[1,6,7,2]"),
        case("AffineGrid", "f32[2,2,3]; i64{2,3,4,5}"),
        case("RoiAlign", "f32[2,3,8,8]; f32[5,4]; i64[5]", output_height=2, output_width=3),
        case("DFT", "f32[2,9,1]; ; i64(1)", onesided=1),
        case("STFT", "f32[2,32,1]; i64(4); ; i64(16)", onesided=1),
        case("STFT", "f32[2,32,1]; i64(4); f32[8]", onesided=0),
        case("QuantizeLinear", "f32[2]; f32[]; i8[]"),
        case("DequantizeLinear", "i8[2]; f32[]"),
        case("DynamicQuantizeLinear", "f32[2,3]", 3),
        case("NegativeLogLikelihoodLoss", "f32[2,3]; i64[2]", reduction="none"),
        case("SoftmaxCrossEntropyLoss", "f32[2,3]; i64[2]", 2),
        case("ReverseSequence", "f32[4,5]; i64[5]"),
    ]
    return rows


def expected(row: Case) -> str:
    """Returns the types that onnx infers, in the format of infer_case.h."""
    op, inputs, attributes, outputs, opset = row
    names, values, initializers = [], [], []
    for k, text in enumerate(inputs):
        if not text:
            names.append("")
            continue
        names.append(f"x{k}")
        match = re.fullmatch(r"(\w+)([\[{(])(.*)[\]})]", text)
        assert match, text
        numbers = [int(number) for number in match[3].split(",") if number]
        if match[2] == "[":
            values.append(helper.make_tensor_value_info(names[-1], DTYPES[match[1]], numbers))
        else:
            array = np.array(numbers if match[2] == "{" else numbers[0], np.int64)
            initializers.append(numpy_helper.from_array(array, names[-1]))
    results = [f"y{k}" for k in range(outputs)]
    node = helper.make_node(op, names, results, **attributes)
    graph = helper.make_graph(
        [node], "g", values, [onnx.ValueInfoProto(name=name) for name in results], initializers
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
    inferred = onnx.shape_inference.infer_shapes(model, strict_mode=True, data_prop=True)
    texts = []
    for result in inferred.graph.output:
        tensor = result.type.tensor_type
        sizes = [size.dim_value for size in tensor.shape.dim]
        if not tensor.HasField("shape"):
            raise ValueError(f"onnx infers no shape for {row}")
        if not all(size.HasField("dim_value") for size in tensor.shape.dim):
            raise ValueError(f"onnx infers no constant sizes for {row}")
        texts.append(NAMES[tensor.elem_type] + str(sizes))
    return "; ".join(texts)


def literal(row: Case) -> str:
    op, inputs, attributes, outputs, opset = row
    fields = []
    for name, value in attributes.items():
        if isinstance(value, list):
            text = f"Ints{{{', '.join(map(str, value))}}}"
        else:
            text = json.dumps(value) if isinstance(value, str) else f"int64_t{{{value}}}"
        fields.append(f'{{"{name}", {text}}}')
    texts = ", ".join(json.dumps(text) for text in inputs if inputs != [""])
    return (
        f'{{"{op}", {{{texts}}}, {{{", ".join(fields)}}}, {outputs}, {opset},'
        f" {json.dumps(expected(row))}}},"
    )


def main() -> None:
    rows = "\n    ".join(literal(row) for row in singles() + pools() + slices())
    Path(__file__).with_name("infer_reference_test.cpp").write_text(
        f"""// Written by make_infer_reference.py: types that onnx {onnx.__version__} infers.
#include <gtest/gtest.h>

#include "onnx/infer_case.h"

namespace onnx_native::onnx {{
namespace {{

using Ints = std::vector<int64_t>;

struct Row {{
  std::string op_type;
  std::vector<std::string> inputs;
  std::vector<Attribute> attributes;
  size_t outputs;
  int64_t opset;
  std::string expected;
}};

// clang-format off
const std::vector<Row> kRows = {{
    {rows}
}};
// clang-format on

TEST(Infer, AgreesWithOnnx) {{
  for (const Row& row : kRows) {{
    std::string got = inferred(row.op_type, row.inputs, row.attributes, row.outputs, row.opset);
    // Only our inference tracks contents.
    while (got.find('{{') != std::string::npos) {{
      got.erase(got.find('{{'), got.find('}}') - got.find('{{') + 1);
    }}
    EXPECT_EQ(got, row.expected) << row.op_type << " " << ::testing::PrintToString(row.inputs);
  }}
}}

}}  // namespace
}}  // namespace onnx_native::onnx
"""
    )


if __name__ == "__main__":
    main()
