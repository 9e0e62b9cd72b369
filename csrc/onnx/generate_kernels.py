"""Asks the installed ONNX Runtime which dtypes its CPU kernels take, operator by operator.

Run by hand when a new ONNX Runtime comes out; writes csrc/onnx/kernels.inc, which is kept in the
repository because the build does not need ONNX Runtime.  A model of one node is loaded for each
operator and dtype; a kernel that is missing is ONNX Runtime's NOT_IMPLEMENTED.
"""

from __future__ import annotations

import argparse
import pathlib

import onnx
import onnx.helper as oh
import onnxruntime as ort

T = onnx.TensorProto
DTYPES = [
    T.FLOAT, T.UINT8, T.INT8, T.UINT16, T.INT16, T.INT32, T.INT64, T.BOOL, T.FLOAT16, T.DOUBLE,
    T.UINT32, T.UINT64, T.BFLOAT16,
]  # fmt: skip

# Operator -> (inputs, attributes).  "T" is a [2, 3] tensor of the dtype in question, "T0" a 0-d
# one, "T4" a [1, 2, 4, 4] one; "i:..." an int64 constant; "b" a [2, 3] bool tensor.
UNARY = [
    "Abs",
    "Acos",
    "Acosh",
    "Asin",
    "Asinh",
    "Atan",
    "Atanh",
    "Ceil",
    "Cos",
    "Cosh",
    "Erf",
    "Exp",
    "Floor",
    "Identity",
    "IsNaN",
    "Log",
    "Neg",
    "Reciprocal",
    "Relu",
    "Round",
    "Sigmoid",
    "Sign",
    "Sin",
    "Sinh",
    "Softplus",
    "Softsign",
    "Sqrt",
    "Tan",
    "Tanh",
    "Elu",
    "Selu",
    "Celu",
    "LeakyRelu",
    "HardSigmoid",
    "HardSwish",
    "Mish",
    "Gelu",
    "ThresholdedRelu",
    "IsInf",
    "Softmax",
    "LogSoftmax",
    "Not",
    "NonZero",
    "BitwiseNot",
    "Shape",
    "Size",
    "Trilu",
    "Det",
]
BINARY = [
    "Add",
    "Sub",
    "Mul",
    "Div",
    "Pow",
    "And",
    "Or",
    "Xor",
    "Equal",
    "Greater",
    "GreaterOrEqual",
    "Less",
    "LessOrEqual",
    "Max",
    "Min",
    "BitwiseAnd",
    "BitwiseOr",
    "BitwiseXor",
    "PRelu",
    "Mean",
    "Sum",
]
REDUCE = [
    "ReduceSum",
    "ReduceMean",
    "ReduceMax",
    "ReduceMin",
    "ReduceProd",
    "ReduceL1",
    "ReduceL2",
    "ReduceLogSumExp",
    "ReduceSumSquare",
    "ReduceLogSum",
]
CASES: dict[str, tuple[list[str], dict[str, object]]] = {
    **{op: (["T"], {}) for op in UNARY},
    **{op: (["T", "T"], {}) for op in BINARY},
    **{op: (["T", "i:1"], {}) for op in REDUCE},
    "Det": (["T22"], {}),
    "Mod": (["T", "T"], {"fmod": "float"}),
    "BitShift": (["T", "T"], {"direction": "LEFT"}),
    "Clip": (["T", "T0", "T0"], {}),
    "Where": (["b", "T", "T"], {}),
    "MatMul": (["T22", "T22"], {}),
    "Gemm": (["T22", "T22", "T22"], {}),
    "ArgMax": (["T"], {"axis": 0}),
    "ArgMin": (["T"], {"axis": 0}),
    "CumSum": (["T", "i0:0"], {}),
    "TopK": (["T", "i:1"], {}),
    "Gather": (["T", "i:0"], {}),
    "GatherElements": (["T", "i2:0"], {}),
    "GatherND": (["T", "i2:0"], {}),
    "ScatterElements": (["T", "i2:0", "T11"], {}),
    "ScatterND": (["T", "i2:0", "T13"], {}),
    "Concat": (["T", "T"], {"axis": 0}),
    "Slice": (["T", "i:0", "i:1"], {}),
    "Split": (["T"], {"axis": 0, "num_outputs": 2}),
    "Squeeze": (["T11"], {}),
    "Unsqueeze": (["T", "i:0"], {}),
    "Reshape": (["T", "i:6"], {}),
    "Transpose": (["T"], {}),
    "Expand": (["T", "i:1"], {}),
    "Tile": (["T", "i:1,1"], {}),
    "Range": (["T0", "T0", "T0"], {}),
    "Pad": (["T", "i:0,0,0,1"], {}),
    "OneHot": (["i2:0", "i0:3", "T2"], {}),
    "Compress": (["T", "b1"], {}),
    "Unique": (["T"], {}),
    "EyeLike": (["T"], {}),
    "Conv": (["T4", "T4"], {}),
    "ConvTranspose": (["T4", "T4b"], {}),
    "MaxPool": (["T4"], {"kernel_shape": [2, 2]}),
    "AveragePool": (["T4"], {"kernel_shape": [2, 2]}),
    "GlobalAveragePool": (["T4"], {}),
    "GlobalMaxPool": (["T4"], {}),
    "LpPool": (["T4"], {"kernel_shape": [2, 2]}),
    "BatchNormalization": (["T4", "T2", "T2", "T2", "T2"], {}),
    "InstanceNormalization": (["T4", "T2", "T2"], {}),
    "GroupNormalization": (["T4", "T2", "T2"], {"num_groups": 1}),
    "LayerNormalization": (["T", "T3"], {}),
    "RMSNormalization": (["T", "T3"], {}),
    "LRN": (["T4"], {"size": 1}),
    "Resize": (["T4", "", "f:1,1,2,2"], {}),
    "GridSample": (["T4", "f4"], {}),
    "DepthToSpace": (["T4d"], {"blocksize": 2}),
    "SpaceToDepth": (["T4"], {"blocksize": 2}),
    "Einsum": (["T22", "T22"], {"equation": "ij,jk->ik"}),
    "ReverseSequence": (["T", "i:3,3"], {"batch_axis": 0, "time_axis": 1}),
    "Col2Im": (["T3d", "i:2,2", "i:1,1"], {}),
    "CastLike": (["T", "T"], {}),
}
SHAPES = {
    "T": [2, 3], "T0": [], "T4": [1, 2, 4, 4], "T22": [2, 2], "T11": [1, 1], "T13": [1, 3],
    "T2": [2], "T3": [3], "T4b": [2, 2, 4, 4], "T4d": [1, 4, 2, 2], "T3d": [1, 2, 4],
}  # fmt: skip


def load(op: str, dtype: int, opset: int) -> bool:
    """Whether ONNX Runtime has a kernel for the operator with this dtype."""
    specs, attributes = CASES[op]
    inputs: list[str] = []
    values, constants = [], []
    for i, spec in enumerate(specs):
        name = f"x{i}" if spec else ""
        inputs.append(name)
        if spec in SHAPES:
            values.append(oh.make_tensor_value_info(name, dtype, SHAPES[spec]))
        elif spec.startswith("b"):
            values.append(oh.make_tensor_value_info(name, T.BOOL, [2] if spec == "b1" else [2, 3]))
        elif spec == "f4":
            values.append(oh.make_tensor_value_info(name, T.FLOAT, [1, 4, 4, 2]))
        elif spec:
            kind, _, text = spec.partition(":")
            numbers = [float(n) for n in text.split(",")]
            dims = {"i0": [], "i2": [1, 1]}.get(kind, [len(numbers)])
            element = T.FLOAT if kind == "f" else T.INT64
            cast = float if kind == "f" else int
            constants.append(oh.make_tensor(name, element, dims, [cast(n) for n in numbers]))
    if attributes.get("fmod") == "float":
        attributes = {"fmod": int(dtype in (T.FLOAT, T.DOUBLE, T.FLOAT16, T.BFLOAT16))}
    schema = onnx.defs.get_schema(op, opset)
    count = max(1, 2 if op in ("TopK", "Split") else schema.min_output)
    outputs = [f"y{i}" for i in range(count)]
    node = oh.make_node(op, inputs, outputs, **attributes)
    graph = oh.make_graph(
        [node], "g", values, [onnx.ValueInfoProto(name=o) for o in outputs], constants
    )
    ir_version = 8 if opset <= 18 else 10
    model = oh.make_model(graph, opset_imports=[oh.make_opsetid("", opset)], ir_version=ir_version)
    try:
        model = onnx.shape_inference.infer_shapes(model, strict_mode=True)
    except onnx.shape_inference.InferenceError:
        return False  # the schema refuses the dtype
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    try:
        ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    except Exception as error:
        text = str(error)
        if "NOT_IMPLEMENTED" in text or "Could not find an implementation" in text:
            return False
        if "INVALID_GRAPH" in text or "Type Error" in text or "FAIL" in text:
            return False
        raise
    return True


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=pathlib.Path, required=True)
    parser.add_argument("--opset", type=int, default=23)
    arguments = parser.parse_args()
    lines = [f"// Generated by generate_kernels.py from ONNX Runtime {ort.__version__}."]
    for op in sorted(CASES):
        mask = 0
        for dtype in DTYPES:
            if load(op, dtype, arguments.opset):
                mask |= 1 << dtype
        lines.append(f'{{"{op}", 0x{mask:x}}},')
    arguments.output.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
