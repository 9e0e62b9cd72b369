"""Measures which operators the importers of other tools take.

    python csrc/onnx/generate_importers.py csrc/onnx/importers.inc --python /path/to/bin/python

Writes csrc/onnx/importers.inc: the operators whose one-node model a tool does not load, or does not
run as ONNX Runtime does. The repository contains the result, so that the build needs none of the
tools. This interpreter has onnxruntime; it or the given one has each tool (opencv-python-headless,
MNN, tract). The cases are those of generate_kernels.py, at opset 20.
"""

from __future__ import annotations

import argparse
import pathlib
import sys
import tempfile

import numpy as np
import onnx
import onnx.helper as oh
import onnx.parser
from generate_kernels import CASES, DTYPES, one_node_model, session_of

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "benchmarks"))
import importers

OPSET = 20
# The mode of torch.nn.functional.interpolate.
RESIZE = {
    "mode": "nearest",
    "coordinate_transformation_mode": "asymmetric",
    "nearest_mode": "floor",
}
# Results that nobody can compare.
RANDOM = ("Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform",
          "RandomUniformLike")  # fmt: skip


# As models have them, where importers want constants, images, or sizes that programs use.
POOL = {"kernel_shape": [2, 2], "strides": [2, 2], "pads": [0, 0, 0, 0]}
CASES |= {
    "AveragePool": (["T4"], POOL),
    "BatchNormalization": (["T4", "f:1,2", "f:0,1", "f:1,2", "f:2,1"], {}),
    "GatherElements": (["T", "i23:0"], {}),
    "LogSoftmax": (["T"], {"axis": 1}),
    "LpPool": (["T4"], POOL),
    "MaxPool": (["T4"], POOL),
    "PRelu": (["T4", "f211:0.25,0.5"], {}),
    "Range": (["i0:0", "i0:3", "i0:1"], {}),
    "Resize": (["T4", "", "f:1,1,2,2"], RESIZE),
}


# Models in the text of onnx.parser: of operators with sub-graphs, and of those whose result tract
# returns as a float only.
TEXTS = {
    "If": """(bool[1] c, float[2,3] x) => (float[2,3] y) {
        y = If (c) <then_branch = t () => (float[2,3] a) { a = Abs (x) },
                    else_branch = e () => (float[2,3] b) { b = Neg (x) }>
    }""",
    "Loop": """(float[2,3] x) => (float[2,3] y) <int64 n = {2}, bool t = {1}> {
        y = Loop (n, t, x) <body = b (int64 i, bool c, float[2,3] a) => (bool d, float[2,3] r) {
            d = Identity (c)
            r = Add (a, a)
        }>
    }""",
    "Shape": "(float[2,3] x) => (float[2] y) { s = Shape (x) y = Cast <to = 1> (s) }",
    "Size": "(float[2,3] x) => (float y) { s = Size (x) y = Cast <to = 1> (s) }",
    "Scan": """(float[3] s, float[2,3] x) => (float[3] last, float[2,3] y) {
        last, y = Scan <num_scan_inputs = 1, body = b (float[3] a, float[3] e)
                                                  => (float[3] z, float[3] o) {
            z = Add (a, e)
            o = Identity (z)
        }> (s, x)
    }""",
}


def range_of(op: str) -> tuple[float, float]:
    """Returns the least and the greatest element of an input."""
    return (1.1, 1.9) if op == "Acosh" else (0.1, 0.9)


def model_of_text(op: str) -> onnx.ModelProto:
    header = f'<ir_version: 9, opset_import: ["" : {OPSET}]> g '
    return onnx.parser.parse_model(header + TEXTS[op])


def write_case(folder: pathlib.Path, op: str, dtype: int) -> bool:
    """Writes a one-node model with inputs and results, for a tool; False if there is none."""
    try:
        model = model_of_text(op) if op in TEXTS else one_node_model(op, dtype, OPSET)
    except onnx.defs.SchemaError:  # a newer operator
        return False
    if model is None:
        return False
    random = np.random.default_rng(0)
    feeds = {}
    for value in model.graph.input:
        tensor = value.type.tensor_type
        shape = [dim.dim_value for dim in tensor.shape.dim]
        elements = (
            random.uniform(*range_of(op), shape) if tensor.elem_type == dtype else np.ones(shape)
        )
        feeds[value.name] = elements.astype(oh.tensor_dtype_to_np_dtype(tensor.elem_type))
    try:
        results = session_of(model).run(None, feeds)
    except Exception:  # of various classes, at loading or at run time
        return False
    importers.write(folder, model, feeds, results)
    return True


def is_taken(server: importers.Server, op: str) -> bool | None:
    """Whether the tool gives ONNX Runtime's results for a dtype; None if there is no case."""
    tried = False
    for dtype in (onnx.TensorProto.FLOAT, *DTYPES):
        with tempfile.TemporaryDirectory() as scratch:
            folder = pathlib.Path(scratch)
            if not write_case(folder, op, dtype):
                continue
            tried = True
            state, message = server.ask(folder)
            if state == "right":
                return True
            print(server.command[-1], op, onnx.TensorProto.DataType.Name(dtype), state, message)
            if dtype == onnx.TensorProto.FLOAT or "Not Support" in message:
                return False
    return False if tried else None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("table", type=pathlib.Path)
    parser.add_argument("--python", default=sys.executable)
    given = parser.parse_args()
    lines = ["// Generated by generate_importers.py: operators that an importer does not take."]
    for importer in importers.TARGETS:
        pythons = (sys.executable, given.python)
        python = next(each for each in pythons if importers.has(each, importer))
        version = importers.version(python, importer)
        server = importers.Server(python, importer)
        for op in sorted({*CASES, *TEXTS}):
            if op not in RANDOM and is_taken(server, op) is False:
                lines.append(f'{{Target::{importer}, "{version}", "{op}"}},')
        server.close()
    given.table.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
