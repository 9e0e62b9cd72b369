"""Loads exported models in other tools, ours beside PyTorch's, and writes docs/tools.md.

    python benchmarks/tools.py                              all models and tools at opset 20
    python benchmarks/tools.py --opsets 13,17 --models few  the models of SOME
    python benchmarks/tools.py --models bert,swin --tools opencv --output /tmp/tools.md
    python benchmarks/tools.py --python /path/to/bin/python   an interpreter that has the tools

Installs nothing. A tool that neither this interpreter nor the given one has is left out. A model is
right if the tool gives what eager PyTorch gives; one with dynamic sizes also at other sizes. With
--results, outcomes are kept in a file: what it has is not measured again, and the page is of all
that it has.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import importlib
import json
import pathlib
import signal
import sys
import tempfile
import warnings
from collections.abc import Iterator
from typing import Any

import importers
import tools_page

ROOT = pathlib.Path(__file__).resolve().parent.parent
SOME = (
    "timm_resnet10t timm_mobilenetv3 tv_shufflenet tv_densenet tv_lraspp convnext vit swin "
    "tv_swin_v2 segformer nn_lstm nn_gru nn_transformer_encoder bert distilbert gpt2 llama t5 "
    "wav2vec2 clip"
)
SECONDS = 60  # for one export by PyTorch


def target_of(tool: str) -> str:
    return tool if tool in importers.TARGETS else "onnx"


class Zoo:
    """The models of test/python/models, and their exports."""

    def __init__(self) -> None:
        sys.path[:0] = [str(ROOT / "build" / "python"), str(ROOT / "test" / "python")]
        warnings.filterwarnings("ignore")
        self.torch = importlib.import_module("torch")
        self.onnx_native = importlib.import_module("onnx_native")
        self.onnx_native.enable()
        self.eager = importlib.import_module("models.running").eager
        self.models = importlib.import_module("models.architectures").ARCHITECTURES

    def names(self, given: str) -> list[str]:
        if given in ("all", "few"):
            return list(self.models) if given == "all" else SOME.split()
        return given.split(",")

    @functools.lru_cache(maxsize=1)  # noqa: B019 (one for the process)
    def data(self, name: str) -> tuple[Any, list[tuple[Any, list[Any]]]]:
        """Returns a module, and its inputs and results at two sizes."""
        model = self.models[name]
        module = model.module()
        inputs = [model.example(which) for which in (0, 1)]
        return module, [(each, self.eager(module, each)) for each in inputs]

    def write(self, folder: pathlib.Path, case: dict[str, Any], target: str) -> None:
        """Exports a model and writes it to the folder, or raises what the export raises."""
        module, sets = self.data(case["model"])
        dynamic = case["sizes"] == "dynamic"
        ours = case["exporter"] == "ours"
        options = self.onnx_native.options(target=target) if ours else self.onnx_native.disabled()
        with options, contextlib.nullcontext() if ours else limit():
            program = self.torch.onnx.export(
                module,
                kwargs=sets[0][0],
                dynamo=True,
                verbose=False,
                opset_version=case["opset"],
                dynamic_shapes=self.models[case["model"]].dynamic_shapes() if dynamic else None,
            )
        importers.write(folder, program.model_proto, *sets[0], *(sets[1:] if dynamic else ()))


@contextlib.contextmanager
def limit() -> Iterator[None]:
    """Raises TimeoutError in the block when its time is over."""

    def stop(*_: object) -> None:
        raise TimeoutError(f"over {SECONDS} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def measure(zoo: Zoo, case: dict[str, Any], servers: dict[str, importers.Server]) -> None:
    """Adds the outcomes of the tools that the case does not have yet."""
    missing = [tool for tool in servers if tool not in case["tools"]]
    by_target: dict[str, list[str]] = {}
    for tool in missing:
        target = target_of(tool) if case["exporter"] == "ours" else ""
        by_target.setdefault(target, []).append(tool)
    for target, tools in by_target.items():
        with tempfile.TemporaryDirectory(prefix="onnx_native_") as scratch:
            folder = pathlib.Path(scratch)
            try:
                zoo.write(folder, case, target)
            except Exception as error:
                case["tools"] |= {
                    tool: ("is not exported", importers.brief(error)) for tool in tools
                }
                continue
            case["tools"] |= {tool: servers[tool].ask(folder) for tool in tools}


class Results:
    """The cases that were measured, in a file if there is one: a later line replaces an earlier."""

    def __init__(self, path: pathlib.Path | None) -> None:
        self.path = path
        self.cases: dict[str, dict[str, Any]] = {}
        if path is not None and path.exists():
            for line in path.read_text().splitlines():
                case = json.loads(line)
                self.cases[self.key(case)] = case

    @staticmethod
    def key(case: dict[str, Any]) -> str:
        return " ".join(str(case[part]) for part in ("model", "opset", "sizes", "exporter"))

    def find(self, **parts: Any) -> dict[str, Any]:
        return self.cases.setdefault(self.key(parts), {**parts, "tools": {}})

    def keep(self, case: dict[str, Any]) -> None:
        if self.path is not None:
            with self.path.open("a") as file:
                file.write(json.dumps(case) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--models", default="all", help="names, all or few")
    parser.add_argument("--opsets", default="20")
    parser.add_argument("--sizes", default="static,dynamic")
    parser.add_argument("--exporters", default="ours,PyTorch's")
    parser.add_argument("--tools", default=",".join(importers.TOOLS))
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--results", type=pathlib.Path)
    parser.add_argument("--output", type=pathlib.Path, default=ROOT / "docs" / "tools.md")
    given = parser.parse_args()
    servers, versions = {}, {}
    for tool in given.tools.split(","):
        interpreters = (sys.executable, given.python)
        python = next((each for each in interpreters if importers.has(each, tool)), None)
        if python is None:
            print(f"{tool} is not installed")
            continue
        servers[tool] = importers.Server(python, tool)
        versions[tool] = importers.version(python, tool)
    zoo, results = Zoo(), Results(given.results)
    for name in zoo.names(given.models):
        for opset in given.opsets.split(","):
            for sizes in given.sizes.split(","):
                for exporter in given.exporters.split(","):
                    case = results.find(
                        model=name, opset=int(opset), sizes=sizes, exporter=exporter
                    )
                    if servers.keys() <= case["tools"].keys():
                        continue
                    measure(zoo, case, servers)
                    results.keep(case)
                    states = (f"{tool}: {state}." for tool, (state, _) in case["tools"].items())
                    print(results.key(case), *states, flush=True)
    for server in servers.values():
        server.close()
    given.output.write_text(tools_page.page(list(results.cases.values()), versions, SECONDS))


if __name__ == "__main__":
    main()
