"""Compares the forms of an embedding whose matrix the last product shares.

    python benchmarks/tied_embeddings.py

Prints milliseconds for one token and for 128, the best of several runs by turns on one thread, of
each form in ONNX Runtime, after ONNX Runtime's dynamic quantizer, and in OpenVINO if it is
installed. The exporter writes "columns".

    columns    the matrix is stored transposed; GatherElements takes columns of it
    transpose  Gather takes rows; the product takes a Transpose of the matrix
    gemm       Gather takes rows; Gemm takes the matrix with transB
"""

from __future__ import annotations

import importlib.util
import pathlib
import tempfile
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import onnx
import onnx.parser
import onnxruntime
from onnxruntime.quantization import quantize_dynamic

VOCABULARY, WIDTH = 16000, 512
HEADER = '<ir_version: 9, opset_import: ["": 20]>\n'
INPUT = "g (int64[b, n] ids) => (float[b, n, v] y) "
FORMS = {
    "columns": """{
        i = Reshape(ids, flat)
        wide = Expand(i, column)
        columns = GatherElements<axis = 1>(table, wide)
        rows = Transpose(columns)
        size = Shape(ids)
        shape = Concat<axis = 0>(size, width)
        e = Reshape(rows, shape)
        h = Relu(e)
        y = MatMul(h, table)
    }""",
    "transpose": """{
        e = Gather(table, ids)
        h = Relu(e)
        t = Transpose(table)
        y = MatMul(h, t)
    }""",
    "gemm": """{
        e = Gather(table, ids)
        h = Relu(e)
        rows = Reshape(h, matrix)
        product = Gemm<transB = 1>(rows, table)
        size = Shape(ids)
        shape = Concat<axis = 0>(size, vocabulary)
        y = Reshape(product, shape)
    }""",
}
NUMBERS = {
    "flat": [1, -1],
    "column": [WIDTH, 1],
    "width": [WIDTH],
    "matrix": [-1, WIDTH],
    "vocabulary": [VOCABULARY],
}


def model_of(form: str) -> onnx.ModelProto:
    model = onnx.parser.parse_model(HEADER + INPUT + FORMS[form])
    table = np.random.default_rng(0).standard_normal((VOCABULARY, WIDTH), np.float32)
    if form == "columns":
        table = np.ascontiguousarray(table.T)
    used = {name for node in model.graph.node for name in node.input}
    values: dict[str, Any] = {"table": table, **NUMBERS}
    for name, value in values.items():
        if name in used:
            model.graph.initializer.append(onnx.numpy_helper.from_array(np.asarray(value), name))
    onnx.checker.check_model(model)
    return model


def runner(path: pathlib.Path) -> Callable[[Any], Any]:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(path, options)
    return lambda ids: session.run(None, {"ids": ids})


def openvino_runner(path: pathlib.Path) -> Callable[[Any], Any]:
    openvino: Any = importlib.import_module("openvino")
    compiled = openvino.Core().compile_model(path, "CPU", {"INFERENCE_NUM_THREADS": 1})
    request = compiled.create_infer_request()
    return lambda ids: request.infer({0: ids})


def report(name: str, runs: Mapping[str, Callable[[Any], Any]]) -> None:
    for count in (1, 128):
        ids = np.random.default_rng(1).integers(0, VOCABULARY, (1, count))
        best: dict[str, float | str] = {}
        for _ in range(10):
            for form, run in runs.items():
                start = time.perf_counter()
                try:
                    run(ids)
                except Exception:  # each tool has its own
                    best[form] = "fails"
                    continue
                took = round((time.perf_counter() - start) * 1000, 2)
                best[form] = min(float(best.get(form, took)), took)
        print(f"{name}, {count} tokens: {best}")


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        paths = {form: pathlib.Path(folder, f"{form}.onnx") for form in FORMS}
        for form, path in paths.items():
            onnx.save(model_of(form), path)
        report("onnxruntime", {form: runner(path) for form, path in paths.items()})
        quantized = {form: path.with_suffix(".int8.onnx") for form, path in paths.items()}
        for form, path in paths.items():
            quantize_dynamic(path, quantized[form])
        print({form: f"{path.stat().st_size >> 20} MiB" for form, path in quantized.items()})
        report("quantized", {form: runner(path) for form, path in quantized.items()})
        if importlib.util.find_spec("openvino"):
            report("openvino", {form: openvino_runner(path) for form, path in paths.items()})


if __name__ == "__main__":
    main()
