"""Compares the native exporter with PyTorch's own in one process: medians and ratios.

    python benchmarks/export_time.py time     seconds after capture, and node counts, per model
    python benchmarks/export_time.py scaling  seconds after capture of a Llama with 4 to 32 layers
    python benchmarks/export_time.py whole    a whole export through torch.export compared to its
                                              capture (benchmarks/capture.py: the native capture)
    python benchmarks/export_time.py save     saving BERT-base compared to `cat`, and memory growth;
                                              most of its weights are transposed

"After capture": torch.onnx.export on an ExportedProgram captured before the clock starts.
"""

import argparse
import contextlib
import gc
import json
import pathlib
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

import onnx_native  # noqa: E402
import torch  # noqa: E402
from models import zoo  # noqa: E402

MODELS = {**zoo.ZOO, "t5_eager": zoo.t5("eager")}
EXPORTERS: dict[str, Callable[[], contextlib.AbstractContextManager[Any]]] = {
    "theirs": onnx_native.disabled,
    "ours": contextlib.nullcontext,
}


def export(model: zoo.ZooModel, program: Any) -> torch.onnx.ONNXProgram:
    exported = torch.onnx.export(
        program, dynamo=True, dynamic_shapes=model.dynamic_shapes(), verbose=False
    )
    assert exported is not None
    return exported


def median_seconds(runs: int, work: Callable[[], Any]) -> float:
    seconds = []
    for _ in range(runs):
        gc.collect()
        start = time.perf_counter()
        result = work()
        seconds.append(time.perf_counter() - start)
        del result
    return statistics.median(seconds)


def warm_up() -> None:
    """Does the one-time work of a process: imports and PyTorch's registry."""
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU()).eval()
    program = torch.export.export(model, (torch.randn(2, 4),))
    for exporter in EXPORTERS.values():
        with exporter():
            torch.onnx.export(program, dynamo=True, verbose=False)


def table(*columns: str) -> None:
    print("| " + " | ".join(columns) + " |", flush=True)


def compare_times(names: list[str], runs: int) -> None:
    warm_up()
    table("model", "theirs (s)", "ours (s)", "ratio", "nodes theirs", "nodes ours")
    table("---", "--:", "--:", "--:", "--:", "--:")
    for name in names:
        model = MODELS[name]
        program = model.capture()
        seconds: dict[str, float] = {}
        nodes: dict[str, int] = {}
        for who, exporter in EXPORTERS.items():
            with exporter():
                try:
                    first = export(model, program)
                except torch.onnx.OnnxExporterError:
                    continue
                nodes[who] = sum(1 for _ in first.model.graph.all_nodes())
                del first
                seconds[who] = median_seconds(runs, lambda: export(model, program))  # noqa: B023
        ratio = seconds["theirs"] / seconds["ours"] if len(seconds) == 2 else None
        table(
            name,
            f"{seconds['theirs']:.2f}" if "theirs" in seconds else "fails",
            f"{seconds['ours']:.4f}" if "ours" in seconds else "fails",
            f"{ratio:.0f}" if ratio else "",
            str(nodes.get("theirs", "")),
            str(nodes.get("ours", "")),
        )


def compare_layers(runs: int) -> None:
    warm_up()
    table("layers", "ours (s)", "ms per layer", "nodes")
    table("--:", "--:", "--:", "--:")
    for layers in (4, 8, 16, 32):
        model = zoo.llama(layers)
        program = model.capture()
        nodes = sum(1 for _ in export(model, program).model.graph.all_nodes())
        seconds = median_seconds(runs, lambda: export(model, program))  # noqa: B023
        table(str(layers), f"{seconds:.4f}", f"{1000 * seconds / layers:.2f}", str(nodes))


def compare_whole(names: list[str], runs: int) -> None:
    warm_up()
    table("model", "capture alone (s)", "whole export (s)", "difference (s)")
    table("---", "--:", "--:", "--:")
    for name in names:
        model = MODELS[name]
        module = model.module()

        def whole() -> None:
            torch.onnx.export(
                module,  # noqa: B023
                (),
                kwargs=model.example(),  # noqa: B023
                dynamic_shapes=model.dynamic_shapes(),  # noqa: B023
                dynamo=True,
                verbose=False,
            )

        def capture() -> None:
            model.capture(module)  # noqa: B023

        capture()
        with onnx_native.options(capture="torch.export"):
            alone, all_of_it = median_seconds(runs, capture), median_seconds(runs, whole)
        table(name, f"{alone:.2f}", f"{all_of_it:.2f}", f"{all_of_it - alone:+.2f}")


def memory_mib(field: str) -> float:
    for line in pathlib.Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) / 1024
    raise KeyError(field)


def save_once(who: str, runs: int) -> None:
    """Runs in a separate process and prints its measurements as JSON."""
    with EXPORTERS[who]():
        model = MODELS["bert_base"]
        warm_up()
        program = model.capture()
        gc.collect()
        with zoo.scratch_folder() as folder:
            before = memory_mib("VmRSS")
            pathlib.Path("/proc/self/clear_refs").write_text("5")  # forget the peak so far
            exported = export(model, program)
            exported.save(folder / "first.onnx", external_data=True)
            growth = memory_mib("VmHWM") - before
            written = sorted(folder.iterdir())

            def save() -> None:
                target = folder / "again"
                target.mkdir(exist_ok=True)
                for old in target.iterdir():
                    old.unlink()
                exported.save(target / "m.onnx", external_data=True)

            def cat() -> None:
                copy = folder / "copy"
                copy.unlink(missing_ok=True)
                with copy.open("wb") as out:
                    subprocess.run(["cat", *map(str, written)], stdout=out, check=True)

            save()
            cat()
            saves, cats, cpu = [], [], 0.0
            for _ in range(runs):  # alternately, so that both meet the same load
                start = time.process_time()
                saves.append(median_seconds(1, save))
                cpu += time.process_time() - start
                cats.append(median_seconds(1, cat))
            figures = {
                "growth": growth,
                "save": statistics.median(saves),
                "cpu": cpu / runs,
                "cat": statistics.median(cats),
                "bytes": sum(path.stat().st_size for path in written),
            }
    print(json.dumps(figures))


def compare_saving(runs: int) -> None:
    table("exporter", "MB", "save (s)", "CPU (s)", "cat (s)", "cat / save", "memory growth (MiB)")
    table("---", "--:", "--:", "--:", "--:", "--:", "--:")
    for who in EXPORTERS:
        command = [sys.executable, __file__, "save-once", "--exporter", who, "--runs", str(runs)]
        output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        figures = json.loads(output.splitlines()[-1])
        table(
            who,
            f"{figures['bytes'] / 1e6:.0f}",
            f"{figures['save']:.2f}",
            f"{figures['cpu']:.2f}",
            f"{figures['cat']:.2f}",
            f"{figures['cat'] / figures['save']:.2f}",
            f"{figures['growth']:.0f}",
        )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=["time", "scaling", "whole", "save", "save-once"])
    parser.add_argument("--runs", type=int, default=3, help="measurements per median (default 3)")
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    parser.add_argument("--exporter", choices=EXPORTERS, default="ours", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    torch.ops.load_library(onnx_native.library_path())
    onnx_native.enable()
    match arguments.what:
        case "time":
            compare_times(arguments.models, arguments.runs)
        case "scaling":
            compare_layers(arguments.runs)
        case "whole":
            compare_whole(arguments.models, arguments.runs)
        case "save":
            compare_saving(arguments.runs)
        case "save-once":
            save_once(arguments.exporter, arguments.runs)


if __name__ == "__main__":
    main()
