"""Times the native capture against torch.export, with dynamic dimensions.

    python benchmarks/capture.py [--models bert,llama] [--runs 3] [--all]

Each architecture is captured by both. A cell of the native column is empty if the recorder leaves
the program to torch.export; the reason follows the table. Seconds are the median of some runs.
"""

import argparse
import pathlib
import statistics
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "build" / "python"), str(ROOT / "test" / "python")]
warnings.filterwarnings("ignore")

import onnx_native  # noqa: E402
import torch  # noqa: E402
from models.architecture import Architecture  # noqa: E402
from models.architectures import ARCHITECTURES  # noqa: E402
from onnx_native import _capture, _inputs, _request  # noqa: E402

DEFAULT = (
    "bert,deberta_v2,llama,gpt2,t5,whisper,mamba,vit,swin,convnext,detr,tv_densenet,diffusers_unet"
)


def median_seconds(runs: int, work: Callable[..., Any], *arguments: Any) -> float:
    seconds = []
    for _ in range(runs):
        start = time.perf_counter()
        work(*arguments)
        seconds.append(time.perf_counter() - start)
    return statistics.median(seconds)


def native(model: Architecture, module: torch.nn.Module) -> _capture.Captured:
    request = _request.Request(
        module, (), model.example(), model.dynamic_shapes(), None, None, None
    )
    inputs = request.inputs()
    assert isinstance(inputs, _inputs.Inputs)
    return _capture.capture(module, inputs)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", default=DEFAULT)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--all", action="store_true", help="every architecture of the tests")
    arguments = parser.parse_args()
    names = list(ARCHITECTURES) if arguments.all else arguments.models.split(",")
    torch.ops.load_library(onnx_native.library_path())
    torch.set_num_threads(1)
    ratios, asides = [], []
    print("| model | native (s) | torch.export (s) | times faster | guards |")
    print("| --- | --- | --- | --- | --- |")
    for name in names:
        model = ARCHITECTURES[name]
        module = model.module()
        try:
            guards = len(native(model, module).guards)  # the first run also warms PyTorch up
        except _capture.StepAsideError as error:
            asides.append(f"{name}: {error}")
            print(f"| {name} | | | | |", flush=True)
            continue
        seconds = median_seconds(arguments.runs, native, model, module)
        try:
            model.capture(module)
            through = median_seconds(arguments.runs, model.capture, module)
        except Exception as error:
            asides.append(f"{name}: torch.export: {str(error).splitlines()[0]}")
            print(f"| {name} | {seconds:.3f} | | | {guards} |", flush=True)
            continue
        ratios.append(through / seconds)
        row = f"| {name} | {seconds:.3f} | {through:.2f} | {ratios[-1]:.0f} | {guards} |"
        print(row, flush=True)
    if ratios:
        print(f"\nMedian: {statistics.median(ratios):.0f} times faster ({len(ratios)} models).")
    for aside in asides:
        print(f"- {aside}")


if __name__ == "__main__":
    main()
