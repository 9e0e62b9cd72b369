"""Exports models with quantized weights, with onnx_native and with PyTorch's exporter.

    PYTHONPATH=build/python python benchmarks/quantized.py [--size 1024] [--only int4]

Prints a Markdown table. For each configuration of torchao, and for each exporter: the bytes of the
initializers against the bytes that the weights and scales need, the MatMulNBits nodes in ONNX
Runtime's optimized graph of 4 layers, the largest difference to eager without optimizations, and
milliseconds for one row of activations (one thread, default optimizations, the least of many
interleaved runs) against the float model's.
"""

from __future__ import annotations

import argparse
import collections
import dataclasses
import logging
import pathlib
import tempfile
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import onnx_native
import onnxruntime as ort
import torch
from torch import nn
from torchao import quantization as ao
from torchao.quantization.granularity import PerAxis, PerGroup

OPSET = 21
GROUP = 32
INT4: torch.dtype = vars(torch)["int4"]


def intx(dtype: torch.dtype, granularity: Any) -> Any:
    return ao.IntxWeightOnlyConfig(weight_dtype=dtype, granularity=granularity)


# name: (configuration, bits of a weight, elements that share a scale of 4 bytes; 0: a row)
CONFIGS: dict[str, tuple[Callable[[], Any], int, int]] = {
    "int8 weights": (ao.Int8WeightOnlyConfig, 8, 0),
    "int8 weights in groups": (lambda: intx(torch.int8, PerGroup(GROUP)), 8, GROUP),
    "int4 weights": (lambda: intx(INT4, PerAxis(0)), 4, 0),
    "int4 weights in groups": (lambda: intx(INT4, PerGroup(GROUP)), 4, GROUP),
    "int8 weights, int8 activations": (ao.Int8DynamicActivationInt8WeightConfig, 8, 0),
    "int4 weights in groups, int8 activations": (
        lambda: ao.Int8DynamicActivationIntxWeightConfig(
            weight_dtype=INT4, weight_granularity=PerGroup(GROUP)
        ),
        4,
        GROUP,
    ),
    "float8 weights": (ao.Float8WeightOnlyConfig, 8, 0),
}


@dataclasses.dataclass
class Exported:
    """One exporter's model; `error` if there is none."""

    error: str = ""
    initializers: int = 0  # bytes
    fused: int = 0  # MatMulNBits
    difference: float = 0
    session: ort.InferenceSession | None = None


def layers(size: int) -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Linear(size, 4 * size),
        nn.ReLU(),
        nn.Linear(4 * size, size, bias=False),
        nn.Linear(size, 2 * size),
        nn.GELU(),
        nn.Linear(2 * size, size),
    ).eval()


def session(model: bytes | pathlib.Path, optimize: bool, to: str = "") -> ort.InferenceSession:
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    if not optimize:
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    if to:
        options.optimized_model_filepath = to
    return ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def exported(model: nn.Module, x: torch.Tensor, folder: pathlib.Path) -> Exported:
    path, optimized = folder / "model.onnx", str(folder / "optimized.onnx")
    try:
        program = torch.onnx.export(model, (x,), dynamo=True, opset_version=OPSET, verbose=False)
        assert program is not None
        program.save(path)
        own = session(path, optimize=False)
    except Exception as error:
        return Exported(error=f"{type(error).__name__}: {str(error).splitlines()[0]}")
    with torch.no_grad():
        expected = model(x).numpy()
    actual = own.run(None, {own.get_inputs()[0].name: x.numpy()})[0]
    result = Exported(
        initializers=sum(len(each.raw_data) for each in onnx.load(path).graph.initializer),
        difference=float(np.abs(actual - expected).max()),
        session=session(path, optimize=True, to=optimized),
    )
    kinds = collections.Counter(node.op_type for node in onnx.load(optimized).graph.node)
    result.fused = kinds["MatMulNBits"]
    return result


def milliseconds(
    sessions: list[ort.InferenceSession], x: np.ndarray, seconds: float
) -> list[float]:
    """The least time of each session, in interleaved runs."""
    best = [float("inf")] * len(sessions)
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        for i, each in enumerate(sessions):
            feeds = {each.get_inputs()[0].name: x}
            start = time.perf_counter()
            each.run(None, feeds)
            best[i] = min(best[i], time.perf_counter() - start)
    return [1000 * each for each in best]


def needed_bytes(model: nn.Sequential, bits: int, group: int) -> int:
    total = 0
    for layer in model:
        if isinstance(layer, nn.Linear):
            scales = layer.weight.numel() // (group or layer.in_features)
            total += layer.weight.numel() * bits // 8 + 4 * scales
            total += 0 if layer.bias is None else 4 * layer.out_features
    return total


def float_session(size: int, x: torch.Tensor) -> ort.InferenceSession:
    model = layers(size)
    program = torch.onnx.export(model, (x,), dynamo=True, opset_version=OPSET, verbose=False)
    assert program is not None
    return session(program.model_proto.SerializeToString(), optimize=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", type=int, default=1024)
    parser.add_argument("--only", default="")
    parser.add_argument("--seconds", type=float, default=2)
    options = parser.parse_args()
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    torch.ops.load_library(onnx_native.library_path())
    x = torch.randn(1, 1, options.size)
    plain = float_session(options.size, x)
    print("| configuration | exporter | bytes / needed | MatMulNBits | difference | ms (float) |")
    print("| --- | --- | --- | --- | --- | --- |")
    for name, (config, bits, group) in CONFIGS.items():
        if options.only not in name:
            continue
        model = layers(options.size)
        needed = needed_bytes(model, bits, group)
        ao.quantize_(model, config())
        with tempfile.TemporaryDirectory() as folder:
            ours = exported(model, x, pathlib.Path(folder))
        with tempfile.TemporaryDirectory() as folder, onnx_native.disabled():
            theirs = exported(model, x, pathlib.Path(folder))
        both = [each.session for each in (ours, theirs) if each.session]
        times = milliseconds([*both, plain], x.numpy(), options.seconds)
        for exporter, each in (("onnx_native", ours), ("PyTorch's", theirs)):
            if each.error:
                print(f"| {name} | {exporter} | fails: {each.error[:60]} | | | |", flush=True)
                continue
            print(
                f"| {name} | {exporter} | {each.initializers / needed:.2f} | {each.fused} | "
                f"{each.difference:.1e} | {times.pop(0):.2f} ({times[-1]:.2f}) |",
                flush=True,
            )


if __name__ == "__main__":
    main()
