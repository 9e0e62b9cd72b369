"""Quantizes the weights of a language model: at export, and with ONNX Runtime's quantizer after it.

    PYTHONPATH=build/python python benchmarks/weight_quantization.py [--layers 16] [--size 1024]

Prints a Markdown table. For each form, and for each way: seconds from the module to the file, those
of the quantization among them, the memory that it takes beside what the process held before (the
module; for ONNX Runtime's quantizer, the libraries), the bytes of the files, and whether the
quantized initializers are the same, bit for bit. Each way runs in a process of its own.
"""

from __future__ import annotations

import argparse
import json
import logging
import pathlib
import resource
import subprocess
import sys
import tempfile
import time
from typing import Any

import onnx
from onnx import numpy_helper

# name: (target, dtype, symmetric)
FORMS: dict[str, tuple[Any, Any, bool]] = {
    "MatMulNBits, int4": ("onnxruntime-cpu", "int4", True),
    "MatMulNBits, int4, zero points": ("onnxruntime-cpu", "int4", False),
    "MatMulNBits, int8": ("onnxruntime-cpu", "int8", True),
    "DequantizeLinear, int4": ("onnx", "int4", True),
}
BLOCK = 32
OPSET = 23


def peak() -> float:
    """The most memory that the process held, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def export(path: pathlib.Path, form: str, layers: int, size: int, is_quantized: bool) -> Any:
    import onnx_native
    import torch

    sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "test" / "python"))
    from models.torchvision_kernels import load_torchvision_kernels

    load_torchvision_kernels()  # transformers imports torchvision
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.ops.load_library(onnx_native.library_path())
    torch.manual_seed(0)
    config = LlamaConfig(
        hidden_size=size,
        intermediate_size=size * 11 // 4,
        num_hidden_layers=layers,
        num_attention_heads=size // 64,
        num_key_value_heads=size // 64,
        vocab_size=32000,
        use_cache=False,
    )
    module = LlamaForCausalLM(config).eval()
    tokens = torch.arange(8).view(2, 4)
    module(tokens)
    before = peak()
    target, dtype, symmetric = FORMS[form]
    quantization = onnx_native.WeightQuantization(
        dtype if is_quantized else "none", block_size=BLOCK, symmetric=symmetric
    )
    start = time.perf_counter()
    with onnx_native.options(target=target, quantize_weights=quantization):
        program = torch.onnx.export(
            module,
            (tokens,),
            dynamo=True,
            verbose=False,
            opset_version=OPSET,
            dynamic_shapes=({0: "batch", 1: "length"},),
        )
    assert program is not None
    exported = time.perf_counter()
    program.save(path, external_data=True)
    end = time.perf_counter()
    return {"all": end - start, "own": end - exported, "memory": peak() - before}


def quantize(path: pathlib.Path, form: str, source: pathlib.Path) -> Any:
    from onnxruntime.quantization import matmul_nbits_quantizer, quant_utils

    logging.disable(logging.WARNING)
    target, dtype, symmetric = FORMS[form]
    formats = quant_utils.QuantFormat
    config = matmul_nbits_quantizer.DefaultWeightOnlyQuantConfig(
        block_size=BLOCK,
        is_symmetric=symmetric,
        bits=int(dtype[3:]),
        quant_format=formats.QDQ if target == "onnx" else formats.QOperator,
    )
    before = peak()
    start = time.perf_counter()
    model = onnx.load(source)
    quantizer = matmul_nbits_quantizer.MatMulNBitsQuantizer(model, algo_config=config)
    quantizer.process()
    quantizer.model.save_model_to_file(str(path), use_external_data_format=True)
    return {"own": time.perf_counter() - start, "memory": peak() - before}


def parts(path: pathlib.Path) -> list[list[tuple[Any, ...]]]:
    """What the model stores of each quantized weight, in the same order for both ways."""
    model = onnx.load(path)
    constants = {each.name: each for each in model.graph.initializer}
    return sorted(
        [
            (one.data_type, tuple(one.dims), numpy_helper.to_array(one).tobytes())
            for one in (constants[name] for name in node.input if name in constants)
        ]
        for node in model.graph.node
        if node.op_type in ("MatMulNBits", "DequantizeLinear")
    )


def megabytes(folder: pathlib.Path) -> float:
    return sum(file.stat().st_size for file in folder.iterdir()) / 1e6


def in_a_process(arguments: argparse.Namespace, form: str, way: str, folder: pathlib.Path) -> Any:
    sizes = ["--layers", str(arguments.layers), "--size", str(arguments.size)]
    command = [sys.executable, __file__, *sizes, "--run", form, way, str(folder)]
    result = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(result.stdout.splitlines()[-1])


def run(arguments: argparse.Namespace) -> Any:
    form, way, folder = arguments.run
    path = pathlib.Path(folder) / way / "m.onnx"
    path.parent.mkdir()
    if way == "after":
        return quantize(path, form, pathlib.Path(folder) / "float" / "m.onnx")
    return export(path, form, arguments.layers, arguments.size, way == "at")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--layers", type=int, default=16)
    parser.add_argument("--size", type=int, default=1024)
    parser.add_argument("--run", nargs=3, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.run:
        print(json.dumps(run(arguments)))
        return
    print("| form | quantized | s | of these s | memory MB | files MB | same bits |")
    print("| --- | --- | ---: | ---: | ---: | ---: | --- |")
    for form in FORMS:
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            plain, at, after = (
                in_a_process(arguments, form, way, folder) for way in ("float", "at", "after")
            )
            is_same = (
                "yes" if parts(folder / "at/m.onnx") == parts(folder / "after/m.onnx") else "no"
            )
            sizes = [megabytes(folder / way) for way in ("at", "after")]
        after["all"] = plain["all"] + after["own"]
        for way, row, size in (
            ("at export", at, sizes[0]),
            ("by ONNX Runtime", after, sizes[1]),
        ):
            numbers = f"{row['all']:.1f} | {row['own']:.1f} | {row['memory']:.0f} | {size:.0f}"
            print(f"| {form} | {way} | {numbers} | {is_same} |", flush=True)


if __name__ == "__main__":
    main()
