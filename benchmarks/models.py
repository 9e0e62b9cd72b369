"""Exports many small architectures with the native exporter and with PyTorch's own.

    python benchmarks/models.py [--models bert,llama] [--no-upstream] [--json results.json]

Each model is captured once (torch.export, dynamic shapes), exported, checked (onnx.checker, full)
and run in ONNX Runtime without optimizations. The results are compared with eager PyTorch at the
sizes of the capture and at others. Times are from a single run.
"""

import argparse
import contextlib
import gc
import json
import pathlib
import sys
import time
import traceback
import warnings
from collections.abc import Iterator
from typing import Any

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "build" / "python"), str(ROOT / "test" / "python")]
warnings.filterwarnings("ignore")

import onnx  # noqa: E402
import onnx_native  # noqa: E402
import torch  # noqa: E402
from models import running, zoo  # noqa: E402
from models.architecture import Architecture  # noqa: E402
from models.architectures import ARCHITECTURES  # noqa: E402

STAGES = ("captured", "exported", "checked", "equal", "equal elsewhere")
Result = dict[str, Any]


@contextlib.contextmanager
def stage(result: Result, name: str) -> Iterator[None]:
    """Times one stage and records that it succeeded."""
    start = time.perf_counter()
    yield
    result[f"{name} (s)"] = time.perf_counter() - start
    result["status"] = name


def run_stages(
    model: Architecture, module: torch.nn.Module, program: torch.export.ExportedProgram
) -> Result:
    """Runs one exporter on a captured program; returns the stages it passed and the error."""
    result: Result = {"status": "captured", "error": ""}
    try:
        with zoo.scratch_folder() as folder, torch.no_grad():
            path = folder / "m.onnx"
            with stage(result, "exported"):
                exported = torch.onnx.export(
                    program,
                    f=path,
                    dynamo=True,
                    dynamic_shapes=model.dynamic_shapes(),
                    verbose=False,
                )
            assert exported is not None
            result["nodes"] = sum(1 for _ in exported.model.graph.all_nodes())
            with stage(result, "checked"):
                onnx.checker.check_model(str(path), full_check=True)
            session = running.session(path, optimized=False)
            for which, name in enumerate(STAGES[-2:]):
                with stage(result, name):
                    inputs = model.example(which)
                    expected = running.eager(module, inputs)
                    running.assert_same(running.run(session, inputs), expected)
    except Exception as error:
        result["error"] = f"{type(error).__name__}: {error}"
        result["trace"] = traceback.format_exc()
    return result


def measure(model: Architecture, upstream: bool) -> Result:
    start = time.perf_counter()
    try:
        module = model.module()
        start = time.perf_counter()
        program = model.capture(module)
    except Exception as error:
        failed = {"status": "not captured", "error": f"{type(error).__name__}: {error}"}
        failed["trace"] = traceback.format_exc()
        uncaptured = {"capture (s)": time.perf_counter() - start, "ours": failed}
        return {**uncaptured, "upstream": failed} if upstream else uncaptured
    result: Result = {"capture (s)": time.perf_counter() - start}
    result["ours"] = run_stages(model, module, program)
    if upstream:
        with onnx_native.disabled():
            result["upstream"] = run_stages(model, module, program)
    return result


def row(name: str, result: Result) -> str:
    cells = [name, f"{result['capture (s)']:.1f}"]
    for who in ("ours", "upstream"):
        if who in result:
            one = result[who]
            status = "equal at both sizes" if one["status"] == STAGES[-1] else one["status"]
            seconds = f"{one['exported (s)']:.2f}" if "exported (s)" in one else ""
            cells += [status, seconds, str(one.get("nodes", ""))]
    return "| " + " | ".join(cells) + " |"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--models", default=",".join(ARCHITECTURES), help="names, with commas")
    parser.add_argument("--no-upstream", action="store_true", help="ours alone")
    parser.add_argument("--json", type=pathlib.Path, help="everything measured, errors included")
    arguments = parser.parse_args()
    torch.ops.load_library(onnx_native.library_path())
    onnx_native.enable()

    exporters = ["ours"] if arguments.no_upstream else ["ours", "upstream"]
    columns = [f"{who}{what}" for who in exporters for what in ("", " export (s)", " nodes")]
    print("| model | capture (s) | " + " | ".join(columns) + " |")
    print("| --- | --: |" + " --- | --: | --: |" * len(exporters), flush=True)
    results: dict[str, Result] = {}
    for name in arguments.models.split(","):
        results[name] = measure(ARCHITECTURES[name], not arguments.no_upstream)
        print(row(name, results[name]), flush=True)
        if arguments.json:
            arguments.json.write_text(json.dumps(results, indent=1))
        gc.collect()

    print()
    for who in exporters:
        done = sum(result[who]["status"] == STAGES[-1] for result in results.values())
        print(f"{who}: {done} of {len(results)} equal to eager PyTorch at both sizes")
        for name, result in results.items():
            if result[who]["error"]:
                print(f"    {name}: {' '.join(result[who]['error'].split())[:300]}")


if __name__ == "__main__":
    main()
