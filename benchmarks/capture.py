"""Times the native capture against torch.export, with dynamic dimensions.

    python benchmarks/capture.py [--models bert,llama] [--runs 3] [--all]
    python benchmarks/capture.py --whole     torch.onnx.export, ours against PyTorch's
    python benchmarks/capture.py --first     the same for the first export of a process
    python benchmarks/capture.py --growth    the capture of a Llama with 4 to 64 layers
    python benchmarks/capture.py --check     each architecture runs at three sizes; no times
    python benchmarks/capture.py --same      the calls of both captures, compared; no times

Each architecture is captured by both. A cell of the native column is empty if the recorder leaves
the program to torch.export; the reason follows the table. Seconds are the median of some runs, of
three times as many for the native capture.
"""

import argparse
import collections
import math
import os
import pathlib
import re
import statistics
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "build" / "python"), str(ROOT / "test" / "python")]
warnings.filterwarnings("ignore")

import onnx  # noqa: E402
import onnx_native  # noqa: E402
import torch  # noqa: E402
from models import running, zoo  # noqa: E402
from models.architecture import SIZES, Architecture  # noqa: E402
from models.architectures import ARCHITECTURES  # noqa: E402
from onnx_native.recording import _capture, _recorder  # noqa: E402
from onnx_native.request import _inputs, _request, _shapes  # noqa: E402

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


def inputs_of(model: Any, module: torch.nn.Module) -> _inputs.Inputs:
    request = _request.Request(
        module, (), model.example(), model.dynamic_shapes(), None, None, None
    )
    inputs = request.inputs()
    assert isinstance(inputs, _inputs.Inputs)
    return inputs


def native(model: Any, module: torch.nn.Module) -> _recorder.Recorded:
    return _capture.capture(module, inputs_of(model, module))


def export(model: Any, module: torch.nn.Module) -> Any:
    return torch.onnx.export(
        module,
        (),
        kwargs=model.example(),
        dynamo=True,
        dynamic_shapes=model.dynamic_shapes(),
        verbose=False,
    )


def compare(names: list[str], runs: int) -> None:
    ratios, asides = [], []
    print("| model | native (s) | torch.export (s) | times faster | guards |")
    print("| --- | --- | --- | --- | --- |")
    for name in names:
        model = ARCHITECTURES[name]
        module = model.module()
        try:
            guards = len(native(model, module).guards)  # the first run also warms PyTorch up
        except _recorder.StepAsideError as error:
            asides.append(f"{name}: {error}")
            print(f"| {name} | | | | |", flush=True)
            continue
        seconds = median_seconds(3 * runs, native, model, module)
        try:
            model.capture(module)
            through = median_seconds(runs, model.capture, module)
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


def sized(model: Architecture, **sizes: int) -> dict[str, torch.Tensor]:
    torch.manual_seed(2)
    all_sizes = {name: both[0] for name, both in {**SIZES, **model.sizes}.items()} | sizes
    return {name: one.value(all_sizes) for name, one in model.inputs.items()}


def check(names: list[str]) -> None:
    """Exports natively, checks, and compares with eager at the example's and two other sizes."""
    right = 0
    for name in names:
        model = ARCHITECTURES[name]
        module = model.module()
        try:
            native(model, module)
        except _recorder.StepAsideError as error:
            print(f"- {name} is left to torch.export: {error}", flush=True)
            continue
        try:
            with zoo.scratch_folder() as folder:
                export(model, module).save(folder / "m.onnx")
                onnx.checker.check_model(str(folder / "m.onnx"), full_check=True)
                session = running.session(folder / "m.onnx", optimized=False)
                for example in (model.example(0), model.example(1), sized(model, batch=1)):
                    running.assert_same(
                        running.run(session, example), running.eager(module, example)
                    )
            right += 1
        except Exception as error:
            print(f"- {name} is wrong or refused: {str(error).splitlines()[0]}", flush=True)
    print(f"Captured natively and right at three sizes: {right} of {len(names)}.")


# What only one of the captures writes down, and what has no effect on the model.
LEFT_OUT = re.compile(
    r"aten::(sym_size|contiguous\(|alias\()|aten::slice\.Tensor\(.*, 0, 9223372036854775807, 1\)$"
)


def calls(text: str) -> collections.Counter[str]:
    """The calls of an ATen graph with their types, without the names of values.

    Leaves out arithmetic on sizes, and whether cuDNN may normalize. Symbols are numbered in the
    order of the inputs' sizes: torch.export names those of a derived size, 32*s89, by itself.
    """
    found = re.findall(r"^ +(%.* = (?:aten|higher_order|torch)\w*::.*)$", text, re.MULTILINE)
    inputs = text[: text.find(") constants(")].partition("graph(")[2].splitlines()[:1]
    sizes = re.findall(r"\w+\[([^\]]*)\]", "".join(inputs))
    symbols = list(dict.fromkeys(re.findall(r"[A-Za-z_]\w*", ",".join(sizes))))

    def numbered(types: re.Match[str]) -> str:
        return re.sub(
            r"[A-Za-z_]\w*",
            lambda name: f"n{symbols.index(name[0])}" if name[0] in symbols else name[0],
            types[0],
        )

    return collections.Counter(
        re.sub(
            r"(aten::(?:layer_norm|\w*batch_norm|instance_norm|group_norm)\(.*), \w+\)$",
            r"\1)",
            re.sub(r"%[\w.]+", "%", re.sub(r"\w+\[[^\]]*\]", numbered, call)),
        )
        for call in found
        if not LEFT_OUT.search(call)
    )


def same(names: list[str]) -> None:
    """Compares the ATen graph of the native capture with that of torch.export's program."""
    equal, compared = 0, 0
    for name in names:
        model = ARCHITECTURES[name]
        module = model.module()
        try:
            recorded = native(model, module).native.text()
        except _recorder.StepAsideError as error:
            print(f"- {name} is left to torch.export: {error}", flush=True)
            continue
        try:
            program = model.capture(module)
        except Exception as error:
            print(f"- {name}: torch.export: {str(error).splitlines()[0]}", flush=True)
            continue
        symbols = _shapes.symbol_names(program, inputs_of(model, module).specs)
        ours, theirs = calls(recorded), calls(onnx_native._C.read(program, symbols))
        compared += 1
        equal += ours == theirs
        for which, more in (("the recorder", ours - theirs), ("torch.export", theirs - ours)):
            operators = collections.Counter(re.sub(r".* = |\(.*", "", call) for call in more)
            if operators:
                print(f"- {name}, only {which}: {dict(operators)}", flush=True)
    print(f"The same calls through both: {equal} of {compared}.")


def whole(names: list[str], runs: int) -> None:
    """Times torch.onnx.export, also for BERT-base and a Llama of 32 layers and hidden size 512."""
    ratios = []
    with onnx_native.disabled():
        export(zoo.BERT_SMALL, zoo.BERT_SMALL.module())  # one-time work
    print("| model | PyTorch's exporter (s) | ours (s) | times faster | captured by |")
    print("| --- | --- | --- | --- | --- |")
    models: list[Any] = [zoo.ZOO["bert_base"], zoo.llama(32)]
    models += [ARCHITECTURES[name] for name in names]
    for model in models:
        module = model.module()
        by = export(model, module).export_report["capture"]["by"]
        ours = median_seconds(runs, export, model, module)
        try:
            with onnx_native.disabled():
                theirs = median_seconds(1, export, model, module)
        except Exception:
            print(f"| {model.name} | fails | {ours:.3f} | | {by} |", flush=True)
            continue
        ratios.append(theirs / ours)
        row = f"| {model.name} | {theirs:.1f} | {ours:.3f} | {ratios[-1]:.0f} | {by} |"
        print(row, flush=True)
    print(f"\nMedian: {statistics.median(ratios):.0f} times faster ({len(ratios)} models).")


_FIRST = """
import time, torch
from torch import nn
{model}
model, x = model.eval(), torch.randn(2, 16, 64)
start = time.perf_counter()
{load}
torch.onnx.export(model, (x,), dynamo=True, dynamic_shapes=({{0: "batch"}},), verbose=False)
print(time.perf_counter() - start)
"""
_FIRST_MODELS = {
    "MLP": "model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64))",
    "Transformer": "model = nn.TransformerEncoder("
    "nn.TransformerEncoderLayer(64, 4, batch_first=True), 6, enable_nested_tensor=False)",
}
_LOAD = "import onnx_native\ntorch.ops.load_library(onnx_native.library_path())"


def first(runs: int) -> None:
    """Times the first export of a process, without PyTorch's import."""
    print("| model | PyTorch's exporter (s) | ours (s) | times faster |")
    print("| --- | --- | --- | --- |")
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "build" / "python")}
    for name, model in _FIRST_MODELS.items():
        seconds = []
        for load in ("", _LOAD):
            code = _FIRST.format(model=model, load=load)
            command = [sys.executable, "-W", "ignore", "-c", code]
            done = [subprocess.check_output(command, env=environment) for _ in range(runs)]
            seconds.append(statistics.median(float(each.split()[-1]) for each in done))
        theirs, ours = seconds
        print(f"| {name} | {theirs:.1f} | {ours:.2f} | {theirs / ours:.0f} |", flush=True)


def growth(runs: int) -> None:
    """Prints the exponent with which the seconds of a capture grow with the layers."""
    seconds = {}
    for layers in (4, 8, 16, 32, 64):
        model = zoo.llama(layers)
        module = model.module()
        native(model, module)
        seconds[layers] = median_seconds(runs, native, model, module)
        print(f"{layers} layers: {seconds[layers]:.3f} s", flush=True)
    print(f"Exponent: {math.log(seconds[64] / seconds[4]) / math.log(16):.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", default=DEFAULT)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--all", action="store_true", help="every architecture of the tests")
    parser.add_argument("--whole", action="store_true", help="time whole exports")
    parser.add_argument("--first", action="store_true", help="time the first export of a process")
    parser.add_argument("--growth", action="store_true", help="time captures of a growing model")
    parser.add_argument("--check", action="store_true", help="compare with eager, without times")
    parser.add_argument("--same", action="store_true", help="compare the graphs of both captures")
    arguments = parser.parse_args()
    names = list(ARCHITECTURES) if arguments.all else arguments.models.split(",")
    torch.ops.load_library(onnx_native.library_path())
    torch.set_num_threads(1)
    if arguments.first:
        first(arguments.runs)
    elif arguments.whole:
        whole(names, arguments.runs)
    elif arguments.growth:
        growth(arguments.runs)
    elif arguments.same:
        same(names)
    elif arguments.check:
        check(names)
    else:
        compare(names, arguments.runs)


if __name__ == "__main__":
    main()
