"""Compares the exported graphs with those of PyTorch's exporter: size, speed and numbers.

    python benchmarks/graphs.py                         all models; writes docs/benchmarks
    python benchmarks/graphs.py --models bert,llama --opsets 20 --rounds 0 --output /tmp/report
    python benchmarks/graphs.py --openvino              runs the models in OpenVINO too
    python benchmarks/graphs.py --report results.json   the report alone, from measured figures

Each model is captured once; every exporter exports the same captured program. A graph counts as
right if onnx's full check passes and ONNX Runtime without optimizations gives what eager PyTorch
gives, at two sizes. Latencies are the least of many runs in one thread; the exporters take turns.
Each graph is loaded several times: sessions of one graph differed by up to 37 % for as long as
they lived.
"""

import argparse
import collections
import contextlib
import functools
import gc
import inspect
import itertools
import json
import pathlib
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import Any

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "build" / "python"), str(ROOT / "test" / "python")]
warnings.filterwarnings("ignore")

import graph_report  # noqa: E402
import onnx  # noqa: E402
import onnx_native  # noqa: E402
import onnxruntime  # noqa: E402
import torch  # noqa: E402
from graph_models import MODELS  # noqa: E402
from models import running  # noqa: E402
from models.architecture import Architecture  # noqa: E402

Result = dict[str, Any]
Run = Callable[[], Any]
HAS_TARGETS = "target" in inspect.signature(onnx_native.options).parameters
FOR_ONNX_RUNTIME = "ours, onnxruntime-cpu"  # may have operators that only ONNX Runtime has
LEVELS = {
    "default": onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL,
    "off": onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL,
}


def exporters() -> dict[str, Callable[[], contextlib.AbstractContextManager[Any]]]:
    """PyTorch's exporter and ours, for each target."""
    options: Any = onnx_native.options
    ours: dict[str, Callable[[], contextlib.AbstractContextManager[Any]]] = {
        "ours": contextlib.nullcontext
    }
    if HAS_TARGETS:
        ours[FOR_ONNX_RUNTIME] = lambda: options(target="onnxruntime-cpu")
    return {"theirs": onnx_native.disabled, **ours}


def all_nodes(graph: onnx.GraphProto) -> Iterator[onnx.NodeProto]:
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.GRAPH:
                yield from all_nodes(attribute.g)


def count_operators(model: onnx.ModelProto) -> dict[str, int]:
    """The operators of the graph and of its functions; calls of functions count too."""
    operators = collections.Counter(node.op_type for node in all_nodes(model.graph))
    for function in model.functions:
        operators.update(node.op_type for node in function.node)
    return dict(operators.most_common())


def brief(error: BaseException) -> str:
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text[:400]}"


def session(path: pathlib.Path, level: str) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = LEVELS[level]
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.log_severity_level = 4
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def feeds(inputs: Mapping[str, torch.Tensor]) -> dict[str, Any]:
    return {name: value.numpy() for name, value in inputs.items()}


class Checked:
    """What eager PyTorch computes at both sizes."""

    def __init__(self, model: Architecture, module: torch.nn.Module) -> None:
        self.inputs = [model.example(which) for which in (0, 1)]
        self.expected = [running.eager(module, inputs) for inputs in self.inputs]

    def compare(self, run: Callable[[Mapping[str, torch.Tensor]], list[torch.Tensor]]) -> None:
        for inputs, expected in zip(self.inputs, self.expected, strict=True):
            running.assert_same(run(inputs), expected)


def export(
    model: Architecture, program: torch.export.ExportedProgram, opset: int, path: pathlib.Path
) -> Result:
    torch.onnx.export(
        program,
        f=path,
        dynamo=True,
        opset_version=opset,
        dynamic_shapes=model.dynamic_shapes(),
        verbose=False,
    )
    proto = onnx.load(path, load_external_data=False)
    operators = count_operators(proto)
    return {
        "opset": next(each.version for each in proto.opset_import if not each.domain),
        "nodes": sum(operators.values()),
        "operators": operators,
        "bytes": sum(each.stat().st_size for each in path.parent.iterdir()),
    }


def least_seconds(runs: dict[tuple[str, int], Run], rounds: int) -> dict[tuple[str, int], float]:
    """The least time of each; they take turns, so that all see the same noise."""
    least = dict.fromkeys(runs, float("inf"))
    for run in runs.values():
        run()
    for _ in range(rounds):
        for name, run in runs.items():
            start = time.perf_counter()
            run()
            least[name] = min(least[name], time.perf_counter() - start)
    return least


def in_openvino(path: pathlib.Path) -> Callable[[Mapping[str, torch.Tensor]], list[torch.Tensor]]:
    import openvino

    core = openvino.Core()
    settings = {"INFERENCE_NUM_THREADS": 1, "INFERENCE_PRECISION_HINT": "f32"}
    request = core.compile_model(core.read_model(path), "CPU", settings).create_infer_request()

    def run(inputs: Mapping[str, torch.Tensor]) -> list[torch.Tensor]:
        results = request.infer(feeds(inputs))
        return [torch.from_numpy(results[i].copy()) for i in range(len(results))]

    return run


class Graphs:
    """The graphs of one captured program at one opset, one per exporter."""

    def __init__(self, checked: Checked, folder: pathlib.Path) -> None:
        self.checked = checked
        self.folder = folder
        self.results: dict[str, Result] = {}
        # measure -> exporter and number of the session -> a run of the graph
        self.runs: dict[str, dict[tuple[str, int], Run]] = {}

    def path(self, who: str) -> pathlib.Path:
        return self.folder / who / "model.onnx"

    def _step(self, who: str, name: str, step: Callable[[], None]) -> bool:
        """Runs a step of one exporter; an error is part of its result."""
        try:
            step()
        except Exception as error:
            self.results[who][name] = brief(error)
            return False
        return True

    def add(self, who: str, exported: Callable[[pathlib.Path], Result]) -> None:
        path = self.path(who)
        path.parent.mkdir(parents=True)
        result = self.results[who] = {}

        def check() -> None:
            # ONNX's checker does not know this operator, which ONNX Runtime has in ONNX's domain.
            if "SimplifiedLayerNormalization" not in result["operators"]:
                onnx.checker.check_model(str(path), full_check=True)
            plain = session(path, "off")
            self.checked.compare(lambda inputs: running.run(plain, inputs))

        if self._step(who, "error", lambda: result.update(exported(path))):
            self._step(who, "error", check)

    def prepare(self, openvino: bool, loads: int) -> None:
        """Loads each graph several times per measure."""
        inputs = self.checked.inputs[1]
        fed = feeds(inputs)
        for who, result in self.results.items():
            path = self.path(who)
            if "nodes" not in result:
                continue

            def load(level: str, number: int, who: str = who, path: pathlib.Path = path) -> None:
                loaded = session(path, level)
                loaded.run(None, fed)
                self.runs.setdefault(level, {})[who, number] = lambda: loaded.run(None, fed)

            def load_openvino(who: str = who, path: pathlib.Path = path) -> None:
                run = in_openvino(path)
                self.checked.compare(run)
                self.runs.setdefault("openvino", {})[who, 0] = lambda: run(inputs)

            for level, number in itertools.product(LEVELS, range(loads)):
                self._step(who, f"{level} error", functools.partial(load, level, number))
            if openvino and who != FOR_ONNX_RUNTIME:
                self._step(who, "openvino error", load_openvino)

    def measure(self, rounds: int) -> None:
        for what, runs in self.runs.items():
            for (who, _), seconds in least_seconds(runs, rounds).items():
                self.results[who][what] = min(seconds, self.results[who].get(what, seconds))


def measure(
    name: str, opsets: list[int], rounds: int, loads: int, openvino: bool
) -> Iterator[Result]:
    model = MODELS[name]
    try:
        module = model.module()
        program = model.capture(module)
        checked = Checked(model, module)
    except Exception as error:
        failed = {"error": f"not captured: {brief(error)}"}
        for opset in opsets:
            yield {"model": name, "opset": opset, "graphs": dict.fromkeys(exporters(), failed)}
        return
    for opset in opsets:
        with tempfile.TemporaryDirectory(prefix="onnx_native_") as folder:
            graphs = Graphs(checked, pathlib.Path(folder))
            for who, chosen in exporters().items():
                with chosen(), torch.no_grad():
                    graphs.add(who, lambda path: export(model, program, opset, path))  # noqa: B023
            if rounds:
                graphs.prepare(openvino, loads)
                graphs.measure(rounds)
            yield {"model": name, "opset": opset, "graphs": graphs.results}
        gc.collect()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--models", default=",".join(MODELS), help="names, with commas")
    parser.add_argument("--opsets", default="20,23", help="with commas (default 20,23)")
    parser.add_argument("--rounds", type=int, default=30, help="runs per latency; 0: none")
    parser.add_argument("--loads", type=int, default=4, help="sessions of each graph")
    parser.add_argument("--openvino", action="store_true", help="measure OpenVINO too")
    parser.add_argument("--output", type=pathlib.Path, default=ROOT / "docs" / "benchmarks")
    parser.add_argument("--report", type=pathlib.Path, help="figures of an earlier run")
    arguments = parser.parse_args()
    arguments.output.mkdir(parents=True, exist_ok=True)
    if arguments.report:
        graph_report.write(json.loads(arguments.report.read_text()), arguments.output)
        return
    torch.set_num_threads(1)
    torch.ops.load_library(onnx_native.library_path())
    onnx_native.enable()
    results: list[Result] = []
    for name in arguments.models.split(","):
        opsets = [int(opset) for opset in arguments.opsets.split(",")]
        for result in measure(name, opsets, arguments.rounds, arguments.loads, arguments.openvino):
            results.append(result)
            print(graph_report.line(result), flush=True)
            (arguments.output / "graphs.json").write_text(json.dumps(results, indent=1) + "\n")
    graph_report.write(results, arguments.output)
    print((arguments.output / "graphs.md").read_text())


if __name__ == "__main__":
    main()
