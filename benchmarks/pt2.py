"""Measures BERT-base from a .pt2 file to an .onnx file in three ways, each in a new process.

    python benchmarks/pt2.py

The ways are the C++ command onnx-native, and in Python torch.export.load with
torch.onnx.export(f=...), natively and with PyTorch's exporter. "process" is the time of the whole
process, including imports; "work" is the time after all imports and the export of a small model.
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from typing import Any

ROOT = pathlib.Path(__file__).resolve().parent.parent
COMMAND = ROOT / "build" / "onnx-native"
sys.path[:0] = [str(ROOT / "build" / "python"), str(ROOT / "test" / "python")]


def export_in_python(who: str, source: str, target: str) -> None:
    """Runs in a separate process and prints the seconds of its work."""
    warnings.filterwarnings("ignore")
    import onnx_native
    import torch

    # torch.export.load must know the class of the result.
    import transformers.modeling_outputs  # noqa: F401

    if who == "ours":
        torch.ops.load_library(onnx_native.library_path())
        onnx_native.enable()
    small = torch.export.export(torch.nn.ReLU(), (torch.ones(2),))
    torch.onnx.export(small, dynamo=True, verbose=False)
    start = time.perf_counter()
    program = torch.export.load(source)
    torch.onnx.export(program, f=target, dynamo=True, verbose=False, external_data=True)
    print(json.dumps(time.perf_counter() - start))


def measure(runs: int, command: list[Any]) -> tuple[float, float | None]:
    """Returns the median seconds of the process and, if it prints them, of its work."""
    whole, work = [], []
    for _ in range(runs):
        start = time.perf_counter()
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
        whole.append(time.perf_counter() - start)
        if done.stdout:
            work.append(json.loads(done.stdout.splitlines()[-1]))
    return statistics.median(whole), statistics.median(work) if work else None


def compare(runs: int) -> None:
    import torch
    from models import zoo

    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        source, target = folder / "bert_base.pt2", folder / "bert_base.onnx"
        torch.export.save(zoo.ZOO["bert_base"].capture(), source)
        python = [sys.executable, __file__, "--source", source, "--target", target, "--who"]
        rows = {
            "C++, onnx-native": [COMMAND, source, "-o", target, "--external-data"],
            "Python, onnx_native": [*python, "ours"],
            "Python, PyTorch's exporter": [*python, "theirs"],
        }
        print(f"bert_base.pt2: {source.stat().st_size / 1e6:.0f} MB, medians of {runs}")
        print("| route | process (s) | work (s) |\n| --- | --: | --: |", flush=True)
        for route, command in rows.items():
            whole, work = measure(runs, command)
            print(
                f"| {route} | {whole:.2f} | {'' if work is None else f'{work:.2f}'} |", flush=True
            )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=3, help="measurements per median (default 3)")
    parser.add_argument("--who", choices=["ours", "theirs"], help=argparse.SUPPRESS)
    parser.add_argument("--source", help=argparse.SUPPRESS)
    parser.add_argument("--target", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.who:
        export_in_python(arguments.who, arguments.source, arguments.target)
    else:
        compare(arguments.runs)


if __name__ == "__main__":
    main()
