"""Measures the dtypes of ONNX Runtime's CPU kernels by operator and opset.

    python csrc/onnx/generate_kernels.py csrc/onnx/kernels.inc --add

Writes csrc/onnx/kernels.inc. The repository contains the result, so that the build does not need
ONNX Runtime. Models must run in any version of ONNX Runtime, so the table holds only kernels that
all measured versions have: `--add` intersects the table with the installed version. Run this script
when a new version comes out; test/python/passes/test_kernels.py fails if the installed version does
not have a kernel of the table. The script finds a kernel by loading and running a one-node model.
"""

from __future__ import annotations

import argparse
import functools
import pathlib
import re
import tempfile
from collections.abc import Iterator

import numpy as np
import onnx
import onnx.helper as oh
import onnxruntime as ort

OLDEST_OPSET = 11
NEWEST_OPSET = 26
T = onnx.TensorProto
DTYPES = [
    T.FLOAT, T.UINT8, T.INT8, T.UINT16, T.INT16, T.INT32, T.INT64, T.BOOL, T.FLOAT16, T.DOUBLE,
    T.UINT32, T.UINT64, T.BFLOAT16,
]  # fmt: skip

# Operator -> (inputs, attributes). "T" is a [2, 3] tensor of the dtype in question, others are in
# SHAPES; "i:..." is an int64 constant, "f:..." a float32 one, "n:..." an int32 one; "b" is a [2, 3]
# bool tensor, "f4" and "f5" are float32 inputs.
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
    # The dtype of a random result and of a filled tensor is an attribute.
    "ConstantOfShape": (["i:2,3"], {"value": "T"}),
    "RandomNormal": ([], {"dtype": "T", "shape": [2, 3]}),
    "RandomUniform": ([], {"dtype": "T", "shape": [2, 3]}),
    "RandomNormalLike": (["T"], {}),
    "RandomUniformLike": (["T"], {}),
    "Bernoulli": (["T"], {}),
    "Multinomial": (["T"], {"sample_size": 2}),
    "CumProd": (["T", "i0:0"], {}),
    "MaxUnpool": (["T4", "i4:0"], {"kernel_shape": [2, 2], "strides": [2, 2]}),
    "MaxRoiPool": (["T4n", "T15"], {"pooled_shape": [1, 1]}),
    "RoiAlign": (["T4", "T14", "i:0"], {}),
    "NonMaxSuppression": (["f114", "f111", "i:1"], {}),
    "DeformConv": (["T4", "T22c", "T4o"], {"kernel_shape": [1, 1]}),
    "DFT": (["T3s"], {}),
    "STFT": (["T14s", "i0:2", "T2"], {}),
    "LSTM": (["T3s", "T3w", "T3r"], {"hidden_size": 1}),
    "GRU": (["T3s", "T3g", "T3h"], {"hidden_size": 1}),
    "RNN": (["T3s", "T3i", "T3j"], {"hidden_size": 1}),
    "Dropout": (["T"], {}),
    "Attention": (["T4", "T4", "T4"], {}),
    "RotaryEmbedding": (["T4", "T3e", "T3e"], {}),
}
SHAPES = {
    "T": [2, 3], "T0": [], "T4": [1, 2, 4, 4], "T22": [2, 2], "T11": [1, 1], "T13": [1, 3],
    "T2": [2], "T3": [3], "T4b": [2, 2, 4, 4], "T4d": [1, 4, 2, 2], "T3d": [1, 2, 4],
    "T15": [1, 5], "T14": [1, 4], "T22c": [2, 2, 1, 1], "T4o": [1, 2, 4, 4], "T3s": [1, 4, 1],
    "T14s": [1, 4, 1], "T3w": [1, 4, 1], "T3r": [1, 4, 1], "T3g": [1, 3, 1], "T3h": [1, 3, 1],
    "T3i": [1, 1, 1], "T3j": [1, 1, 1], "T3e": [1, 4, 2],
    "T4n": [2, 2, 4, 4],
}  # fmt: skip
FLOAT_INPUTS = {"f4": [1, 4, 4, 2], "f114": [1, 1, 4], "f111": [1, 1, 1]}
# Constant inputs that were attributes in older opsets: operator -> (before opset, input, name).
ONCE_ATTRIBUTES = {
    **dict.fromkeys(REDUCE, (18, 1, "axes")),
    "ReduceSum": (13, 1, "axes"),
    "Squeeze": (13, 1, "axes"),
    "Unsqueeze": (13, 1, "axes"),
}
# Operators that ONNX Runtime does not have in the form of this opset.
WITHOUT_KERNEL = {
    ("Bernoulli", 22),
    ("MaxRoiPool", 22),
    ("Multinomial", 22),
    ("RandomNormal", 22),
    ("RandomNormalLike", 22),
    ("RandomUniform", 22),
    ("RandomUniformLike", 22),
    ("RoiAlign", 22),
}
FLOATS = (T.FLOAT, T.DOUBLE, T.FLOAT16, T.BFLOAT16)


def constant(name: str, spec: str) -> onnx.TensorProto:
    """Returns a constant input."""
    kind, _, text = spec.partition(":")
    numbers = [float(number) for number in text.split(",") if number]
    if kind.startswith("f"):
        dims = {"f211": [2, 1, 1]}.get(kind, [len(numbers)])
        return oh.make_tensor(name, T.FLOAT, dims, numbers)
    dims = {"i0": [], "i2": [1, 1], "i23": [2, 3], "i4": [1, 2, 4, 4]}.get(kind, [len(numbers)])
    count = int(np.prod(dims, dtype=int))
    return oh.make_tensor(
        name, T.INT64, dims, [int(numbers[i % len(numbers)]) for i in range(count)]
    )


def case_node(
    op: str, dtype: int, opset: int, prefix: str
) -> tuple[onnx.NodeProto, list[onnx.ValueInfoProto], list[onnx.TensorProto]]:
    """Returns the operator in this opset's form, with its inputs and constants."""
    specs, attributes = CASES[op]
    attributes = dict(attributes)
    before, moved, attribute = ONCE_ATTRIBUTES.get(op, (0, 0, ""))
    if opset < before and moved < len(specs):
        attributes[attribute] = [int(n) for n in specs[moved].partition(":")[2].split(",")]
        specs = specs[:moved]
    if op == "Split" and opset < 18:
        del attributes["num_outputs"]
    if op == "Resize" and opset < 13:
        specs = ["T4", "f:", "f:1,1,2,2"]
    if op == "Mod":
        attributes["fmod"] = int(dtype in FLOATS)
    if attributes.get("dtype") == "T":
        attributes["dtype"] = dtype
    if op == "ConstantOfShape":
        attributes["value"] = oh.make_tensor("value", dtype, [1], [1])
    inputs, values, constants = [], [], []
    for i, spec in enumerate(specs):
        name = f"{prefix}x{i}" if spec else ""
        inputs.append(name)
        if spec in SHAPES:
            values.append(oh.make_tensor_value_info(name, dtype, SHAPES[spec]))
        elif spec in FLOAT_INPUTS:
            # NonMaxSuppression accepts a single dtype.
            element = dtype if op == "NonMaxSuppression" else T.FLOAT
            values.append(oh.make_tensor_value_info(name, element, FLOAT_INPUTS[spec]))
        elif spec in ("b", "b1"):
            values.append(oh.make_tensor_value_info(name, T.BOOL, [2] if spec == "b1" else [2, 3]))
        elif spec:
            constants.append(constant(name, spec))
    schema = onnx.defs.get_schema(op, opset)
    count = max(1, 2 if op in ("TopK", "Split") else schema.min_output)
    if op in ("LSTM", "GRU", "RNN"):
        count = 2
    node = oh.make_node(op, inputs, [f"{prefix}y{i}" for i in range(count)], **attributes)
    return node, values, constants


def one_node_model(op: str, dtype: int, opset: int) -> onnx.ModelProto | None:
    """Returns a typed one-node model, or None if the operator's schema rejects the dtype."""
    node, values, constants = case_node(op, dtype, opset, "")
    outputs = [onnx.ValueInfoProto(name=name) for name in node.output]
    graph = oh.make_graph([node], "g", values, outputs, constants)
    imports = [oh.make_opsetid("", opset)]
    model = oh.make_model(
        graph, opset_imports=imports, ir_version=max(8, oh.find_min_ir_version_for(imports))
    )
    try:
        model = onnx.shape_inference.infer_shapes(model, check_type=True, strict_mode=True)
        onnx.checker.check_model(model, full_check=True)
    except (onnx.shape_inference.InferenceError, onnx.checker.ValidationError):
        return None
    return model


def session_of(model: onnx.ModelProto, saved: str = "") -> ort.InferenceSession:
    """Loads the model without optimizations and saves the graph that runs."""
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    if saved:
        options.optimized_model_filepath = saved
    return ort.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )


def ones(value: onnx.ValueInfoProto) -> ort.OrtValue:
    """Returns a tensor of ones for an input."""
    tensor = value.type.tensor_type
    shape = [dim.dim_value for dim in tensor.shape.dim]
    if tensor.elem_type == T.BFLOAT16:
        bits = np.full(shape, 0x3F80, np.uint16)
        return ort.OrtValue.ortvalue_from_numpy_with_onnx_type(bits, T.BFLOAT16)
    dtype = oh.tensor_dtype_to_np_dtype(tensor.elem_type)
    return ort.OrtValue.ortvalue_from_numpy(np.ones(shape, dtype))


def has_kernel(op: str, dtype: int, opset: int, body: bool = False) -> bool:
    """Returns whether ONNX Runtime loads and runs the operator with this dtype and opset.

    The body of a function operator counts only if `body` is set: most bodies are written for one
    opset, and their arithmetic overflows where that of a kernel does not (Softplus).
    """
    model = one_node_model(op, dtype, opset)
    if model is None:
        return False
    with tempfile.TemporaryDirectory() as folder:
        saved = f"{folder}/saved.onnx" if is_function(op) and not body else ""
        try:
            session = session_of(model, saved)
            feeds = {value.name: ones(value) for value in model.graph.input}
            session.run_with_ort_values([output.name for output in model.graph.output], feeds)
        except Exception:  # of various classes, at loading or at run time
            return False
        return not saved or any(node.op_type == op for node in onnx.load(saved).graph.node)


@functools.cache
def is_function(op: str) -> bool:
    """Returns whether the operator is a function of other operators in any opset."""
    return any(
        schema.has_function or schema.has_context_dependent_function
        for schema in onnx.defs.get_all_schemas_with_history()
        if (schema.domain, schema.name) == ("", op)
    )


@functools.cache
def opsets_of(op: str) -> list[int]:
    """Returns the opsets from OLDEST_OPSET on in which an operator starts or changes."""
    return sorted(
        {
            max(schema.since_version, OLDEST_OPSET)
            for schema in onnx.defs.get_all_schemas_with_history()
            if (schema.domain, schema.name, schema.deprecated) == ("", op, False)
            and schema.since_version <= NEWEST_OPSET
        }
    )


def measure() -> Iterator[tuple[str, int, int]]:
    """Yields operator, first opset, and the bits of the dtypes that have kernels."""
    for op in sorted(CASES):
        for opset in opsets_of(op):
            mask = sum(1 << dtype for dtype in DTYPES if has_kernel(op, dtype, opset))
            if mask == 0 and has_kernel(op, T.FLOAT, opset, body=True):
                mask = 1 << T.FLOAT
            if mask == 0 and (op, opset) not in WITHOUT_KERNEL:
                raise ValueError(f"no dtype at all: is the case of {op} at opset {opset} right?")
            yield op, opset, mask


class Table:
    """The rows of a kernels.inc, and the versions of ONNX Runtime that it is valid for."""

    def __init__(self, path: pathlib.Path) -> None:
        first, *lines = path.read_text().splitlines()
        self.versions = re.findall(r"\d+\.\d+\.\d+", first)
        self.rows: dict[str, list[tuple[int, int]]] = {}
        for line in lines:
            op, opset, mask = line.strip("{}, ").split(", ")
            self.rows.setdefault(op.strip('"'), []).append((int(opset), int(mask, 16)))

    def dtypes(self, op: str, opset: int) -> int:
        """Returns the bits of the dtypes with kernels in the opset; all for an unknown operator."""
        masks = [mask for since, mask in self.rows.get(op, [(0, -1)]) if since <= opset]
        return masks[-1] if masks else -1


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("table", type=pathlib.Path)
    parser.add_argument("--add", action="store_true", help="intersect with the existing table")
    arguments = parser.parse_args()
    earlier = Table(arguments.table) if arguments.add else None
    known = earlier.versions if earlier else []
    names = sorted({*known, ort.__version__}, key=lambda v: [int(part) for part in v.split(".")])
    lines = [f"// Generated by generate_kernels.py: kernels of ONNX Runtime {' and '.join(names)}."]
    last: tuple[str, int] | None = None
    for op, opset, measured in measure():
        mask = measured & earlier.dtypes(op, opset) if earlier else measured
        if (op, mask) != last:
            lines.append(f'{{"{op}", {opset}, 0x{mask:x}}},')
        last = (op, mask)
    arguments.table.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
