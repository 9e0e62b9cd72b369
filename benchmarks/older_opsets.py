"""Compares exports at older opsets with exports that onnx.version_converter converts to them.

    python benchmarks/older_opsets.py --newest               all models, opset 17
    python benchmarks/older_opsets.py --opset 13 --converted 17,20 --models bert,swin --sizes static

For each model and sizes, ours beside exports at newer opsets (--converted) that are converted, and
beside the export at opset 20 as it is (--newest): whether ONNX Runtime gives eager's results, how
many nodes they have, and, where operators differ, how long ours takes, as a ratio of the other's
time. The last lines count the outcomes.
"""

import argparse
import collections
import functools
import pathlib
import statistics
import sys
import time
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import onnx
import onnx.version_converter
import onnxruntime
import torch

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "build" / "python"), str(ROOT / "test" / "python")]

import onnx_native  # noqa: E402
from models import running  # noqa: E402
from models.architectures import ARCHITECTURES  # noqa: E402

NODES = 1.05  # more nodes than this ratio are worse
TIME = 1.15  # as are longer times
ROUNDS = 9
LOOKS = 5  # at a time that is longer: the machine has other work
NEWEST = 20

Inputs = Mapping[str, torch.Tensor]


def nodes_of(graph: onnx.GraphProto) -> collections.Counter[str]:
    """Counts the nodes of a graph and of the graphs in it, by operator."""
    found: collections.Counter[str] = collections.Counter()
    for node in graph.node:
        found[node.op_type] += 1
        for attribute in node.attribute:
            for inner in (attribute.g, *attribute.graphs):
                found += nodes_of(inner)
    return found


def brief(error: BaseException) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"


class Candidate:
    """A model, or why there is none, and what ONNX Runtime makes of it."""

    def __init__(self, make: Callable[[], onnx.ModelProto], checks: list[Any]) -> None:
        self.nodes: collections.Counter[str] = collections.Counter()
        self.session: onnxruntime.InferenceSession | None = None
        self.problem = ""
        try:
            model = make()
            self.nodes = nodes_of(model.graph)
            onnx.checker.check_model(model, full_check=True)
            for optimized in (False, True):
                session = running.session(model.SerializeToString(), optimized=optimized)
                for inputs, expected in checks:
                    fed = {each.name: inputs[each.name] for each in session.get_inputs()}
                    running.assert_same(running.run(session, fed), expected)
            self.session = session
        except Exception as error:
            self.problem = brief(error)


def ratio_of_times(ours: Any, other: Any, inputs: Inputs) -> float:
    """Runs both in turn, and returns the ratio of their least times."""
    fed = {each.name: inputs[each.name].numpy() for each in ours.get_inputs()}
    times: dict[int, list[float]] = {0: [], 1: []}
    for _ in range(ROUNDS + 1):
        for which, session in enumerate((ours, other)):
            start = time.perf_counter()
            session.run(None, fed)
            times[which].append(time.perf_counter() - start)
    return min(times[0][1:]) / min(times[1][1:])


def compare(ours: Candidate, other: Candidate, inputs: Inputs) -> tuple[str, str]:
    """Returns "better", "equal", "worse" or "neither", and why."""
    if ours.problem or other.problem:
        if ours.problem and other.problem:
            return "neither", f"ours: {ours.problem}; converted: {other.problem}"
        return ("worse", ours.problem) if ours.problem else ("better", other.problem)
    if ours.nodes == other.nodes:
        return "equal", f"nodes {ours.nodes.total()}"
    nodes = ours.nodes.total() / max(1, other.nodes.total())
    ratio = ratio_of_times(ours.session, other.session, inputs)
    if not 1 / TIME < ratio < TIME:
        looks = [ratio_of_times(ours.session, other.session, inputs) for _ in range(LOOKS - 1)]
        ratio = statistics.median([ratio, *looks])
    more, less = ours.nodes - other.nodes, other.nodes - ours.nodes
    text = f"nodes {ours.nodes.total()} to {other.nodes.total()}, time {ratio:.2f}"
    text += f", more {dict(more)}, less {dict(less)}"
    if nodes > NODES or ratio > TIME:
        return "worse", text
    return ("better" if nodes < 1 / NODES or ratio < 1 / TIME else "equal"), text


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--models", default=",".join(ARCHITECTURES))
    parser.add_argument("--opset", type=int, default=17)
    parser.add_argument("--sizes", default="static,dynamic")
    parser.add_argument("--converted", default="18,20", help="opsets to convert from")
    parser.add_argument("--newest", action="store_true", help=f"beside opset {NEWEST} as it is")
    given = parser.parse_args()
    others = {f"{opset}, converted": int(opset) for opset in given.converted.split(",")}
    others |= {str(NEWEST): NEWEST} if given.newest else {}
    warnings.filterwarnings("ignore")
    onnxruntime.set_default_logger_severity(4)
    onnx_native.enable()
    counts: dict[Any, collections.Counter[str]] = collections.defaultdict(collections.Counter)
    for name in given.models.split(","):
        model = ARCHITECTURES[name]
        module = model.module()
        for sizes in given.sizes.split(","):
            dynamic = sizes == "dynamic"
            inputs = [model.example(which) for which in ((0, 1) if dynamic else (0,))]
            checks = [(each, running.eager(module, each)) for each in inputs]
            options: dict[str, Any] = {"kwargs": inputs[0], "dynamo": True, "verbose": False}
            options["dynamic_shapes"] = model.dynamic_shapes() if dynamic else None

            def export(opset: int, module: Any = module, options: Any = options) -> Any:
                program = torch.onnx.export(module, **options, opset_version=opset)
                assert program is not None
                return program.model_proto

            def make(other: str, export: Any = export) -> Any:
                model = export(others[other])
                if other.endswith("converted"):
                    return onnx.version_converter.convert_version(model, given.opset)
                return model

            ours = Candidate(functools.partial(export, given.opset), checks)
            for each in others:
                other = Candidate(functools.partial(make, each), checks)
                kind, text = compare(ours, other, inputs[-1])
                counts[each][kind] += 1
                print(name, sizes, f"beside {each}:", kind, text, flush=True)
    for each, count in counts.items():
        print(f"opset {given.opset} beside {each}:", dict(count))


if __name__ == "__main__":
    main()
