"""Exports ultralytics' models by its own `export(format="onnx")`, and compares both exporters.

Needs ultralytics: see README.md. Prints the seconds of torch.onnx.export, whether names and sizes
of inputs and outputs are the same, and the largest difference of the outputs in ONNX Runtime.
"""

import logging
import os
import tempfile
import time
import warnings
from typing import Any

import numpy as np
import onnx_native
import onnxruntime as ort
import torch
from models import torchvision_kernels

torchvision_kernels.load_torchvision_kernels()
from ultralytics import RTDETR, YOLO  # noqa: E402

EXPORTS: list[tuple[str, dict[str, Any]]] = [
    ("yolov8n", {}),
    ("yolov8n", {"dynamic": True}),
    ("yolov8n-seg", {}),
    ("yolov8n-pose", {}),
    ("yolov8n-cls", {}),
    ("yolov8n-obb", {}),
    ("yolo11n", {"nms": True}),
    ("yolo11n", {"nms": True, "dynamic": True}),
    ("yolo11n-seg", {"nms": True}),
    ("yolo11n", {"opset": 13}),
    ("yolo12n", {}),
    ("rtdetr-l", {}),
]


def exported(name: str, options: dict[str, Any], *, legacy: bool) -> tuple[str, float]:
    """Returns the file and the seconds of torch.onnx.export."""
    torch.manual_seed(0)
    model = (RTDETR if name.startswith("rtdetr") else YOLO)(f"{name}.yaml")
    seconds = 0.0
    export = torch.onnx.export

    def timed(*args: Any, **kwargs: Any) -> None:
        nonlocal seconds
        start = time.perf_counter()
        export(*args, **kwargs)
        seconds = time.perf_counter() - start

    torch.onnx.export = timed
    try:
        with onnx_native.options(legacy=legacy):
            return model.export(format="onnx", imgsz=64, simplify=False, **options), seconds
    finally:
        torch.onnx.export = export


def outputs(file: str) -> tuple[list[tuple[str, list[Any]]], list[np.ndarray]]:
    session = ort.InferenceSession(file)
    values = [*session.get_inputs(), *session.get_outputs()]
    images = np.random.default_rng(0).random((1, 3, 64, 64), dtype=np.float32)
    results = session.run(None, {session.get_inputs()[0].name: images})
    return [(value.name, value.shape) for value in values], results


def main() -> None:
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    torch.ops.load_library(onnx_native.library_path())
    onnx_native.enable(legacy=False)
    os.chdir(tempfile.mkdtemp())
    print("model | options | older exporter (s) | onnx_native (s) | same signature | difference")
    for name, options in EXPORTS:
        file, older_seconds = exported(name, options, legacy=False)
        older_signature, older = outputs(file)
        file, seconds = exported(name, options, legacy=True)
        signature, newer = outputs(file)
        largest = max(float(np.abs(a - b).max()) for a, b in zip(older, newer, strict=True))
        is_same = signature == older_signature
        print(
            f"{name} | {options} | {older_seconds:.2f} | {seconds:.2f} | {is_same} | {largest:.1e}"
        )


if __name__ == "__main__":
    main()
