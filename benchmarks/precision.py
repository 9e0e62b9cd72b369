"""Exports models in float16, with onnx_native and with ONNX Runtime's converter.

    python benchmarks/precision.py [--only llama bert_base]

Prints a Markdown table. The converter (onnxruntime.transformers.float16) takes the float32 model
that onnx_native exports; its seconds include reading and writing the file, and not that export.
Errors are the largest of all outputs in ONNX Runtime, relative to the largest number of an output
of float32 eager. ONNX Runtime runs in a process of its own, which it may end.
"""

from __future__ import annotations

import argparse
import logging
import os
import pathlib
import subprocess
import sys
import time
import warnings
from typing import Any, Literal

ROOT = pathlib.Path(__file__).resolve().parent.parent
PATHS = [str(ROOT / "build" / "python"), str(ROOT / "test" / "python")]
sys.path[:0] = PATHS

import onnx  # noqa: E402
import onnx_native  # noqa: E402
import torch  # noqa: E402
from models import running, zoo  # noqa: E402
from models.architectures import ARCHITECTURES  # noqa: E402
from onnxruntime.transformers import float16  # noqa: E402

RUN = """
import sys, torch
from models import running
inputs, expected = torch.load(sys.argv[2])
worst = 0.0
for one, other in zip(running.run(running.session(sys.argv[1]), inputs), expected, strict=True):
    finite = torch.isfinite(other)
    assert torch.equal(torch.isfinite(one), finite), "not finite"
    if finite.any():
        scale = other[finite].abs().max().clamp(min=1)
        worst = max(worst, ((one.double() - other.double())[finite].abs().max() / scale).item())
print(f"{worst:.1e}")
"""
NAMES = (
    *("resnet18", "bert_base", "gpt2", "convnext", "diffusers_unet", "gemma2", "llama", "mixtral"),
    *("nn_lstm", "qwen3_cache", "swinv2", "t5", "vit", "whisper"),
)


def error(path: pathlib.Path) -> str:
    command = [sys.executable, "-W", "ignore", "-c", RUN, str(path)]
    command.append(str(path.with_name("values.pt")))
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(PATHS)}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    if done.returncode == 0:
        return done.stdout.strip()
    if done.returncode < 0:
        return "ends the process"
    return "not finite" if "not finite" in done.stderr else "does not run"


def row(name: str, folder: pathlib.Path) -> list[str]:
    model = zoo.ZOO.get(name) or ARCHITECTURES[name]
    module, inputs = model.module(), model.example()
    torch.save((inputs, running.eager(module, inputs)), folder / "values.pt")

    def exported(precision: Literal["program", "float16"]) -> tuple[float, Any]:
        start = time.perf_counter()
        with onnx_native.options(precision=precision):
            program = torch.onnx.export(
                module,
                (),
                folder / f"{precision}.onnx",
                kwargs=inputs,
                dynamic_shapes=model.dynamic_shapes(),
                dynamo=True,
                external_data=False,
                verbose=False,
            )
        return time.perf_counter() - start, program

    exported("program")
    seconds, program = exported("float16")
    start = time.perf_counter()
    converted = float16.convert_float_to_float16(
        onnx.load(folder / "program.onnx"), keep_io_types=True
    )
    onnx.save(converted, folder / "converted.onnx")
    taken = time.perf_counter() - start
    megabytes = [
        f"{(folder / f'{each}.onnx').stat().st_size / 1e6:.1f}"
        for each in ("program", "float16", "converted")
    ]
    report = program.export_report
    nodes = f"{report['half_nodes']} / {sum(report['float32_nodes'].values())}"
    errors = error(folder / "float16.onnx"), error(folder / "converted.onnx")
    return [name, nodes, *megabytes, f"{seconds:.2f}", f"{taken:.2f}", *errors]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--only", nargs="*", default=NAMES, help="names of models")
    names = parser.parse_args().only
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    torch.ops.load_library(onnx_native.library_path())
    heads = ["model", "nodes in float16 / float32", "MB of float32", "MB", "converter's MB"]
    heads += ["seconds", "converter's seconds", "error", "converter's error"]
    print(f"| {' | '.join(heads)} |\n|{' --- |' * len(heads)}")
    for name in names:
        with zoo.scratch_folder() as folder:
            print(f"| {' | '.join(row(name, folder))} |", flush=True)


if __name__ == "__main__":
    main()
