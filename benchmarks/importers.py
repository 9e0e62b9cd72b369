"""Loads exported models in other tools, ours beside PyTorch's, and writes docs/tools.md.

    python benchmarks/tools.py                              all models and tools
    python benchmarks/tools.py --models bert,swin --opsets 20 --tools opencv --output /tmp/tools.md
    python benchmarks/tools.py --python /path/to/bin/python   an interpreter that has the tools

Installs nothing. A tool that neither this interpreter nor the given one can import is left out. A
model is right if the tool gives what eager PyTorch gives. A tool runs in a process of its own,
which is started again after a crash or a timeout.
"""

import argparse
import collections
import contextlib
import functools
import importlib
import json
import pathlib
import select
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parent.parent
MODELS = (
    "timm_resnet10t timm_mobilenetv3 tv_shufflenet tv_densenet tv_lraspp convnext vit swin "
    "tv_swin_v2 segformer nn_lstm nn_gru nn_transformer_encoder bert distilbert gpt2 llama t5 "
    "wav2vec2 clip"
)
MODULES = {  # what a tool's Python package is called
    "onnxruntime": "onnxruntime",
    "openvino": "openvino",
    "opencv": "cv2",
    "mnn": "MNN",
    "tract": "tract",
    "onnxsim": "onnxsim",
}
TARGETS = ("opencv", "mnn")  # tools that options(target=...) knows; other tools take "onnx"
SECONDS = 60.0  # for one model in one tool
TOLERANCE = 2e-3  # of the largest element

Arrays = dict[str, Any]
Run = Callable[[], list[Any]]

# --- The tools: each returns a function that runs the loaded model.


def onnxruntime(path: str, inputs: Arrays, outputs: list[str]) -> Run:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(path, options)
    return lambda: session.run(outputs, inputs)


def openvino(path: str, inputs: Arrays, outputs: list[str]) -> Run:
    import openvino

    compiled = openvino.Core().compile_model(path, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})

    def run() -> list[Any]:
        results = compiled(inputs)
        return [results[i] for i in range(len(outputs))]

    return run


def opencv(path: str, inputs: Arrays, outputs: list[str]) -> Run:
    import cv2

    net = cv2.dnn.readNetFromONNX(path)

    def run() -> list[Any]:
        for name, value in inputs.items():
            net.setInput(value, name)
        return list(net.forward(outputs))

    return run


def mnn(path: str, inputs: Arrays, outputs: list[str]) -> Run:
    import MNN
    from MNN import expr, nn

    converted = path + ".mnn"
    # The converter's own module: the tool that wraps it installs packages and sends a report.
    code = "import sys, _tools; _tools.mnnconvert(sys.argv)"
    command = [sys.executable, "-c", code, "-f", "ONNX", "--bizCode", "x"]
    done = subprocess.run(
        [*command, "--modelFile", path, "--MNNModel", converted],
        check=False,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        cwd=pathlib.Path(path).parent,
    )
    if not pathlib.Path(converted).exists():
        raise RuntimeError(f"exit status {done.returncode}: {' '.join(done.stdout.split())[-120:]}")
    module = nn.load_module_from_file(converted, list(inputs), outputs)

    def variable(value: Any) -> Any:
        kind = np.float32 if value.dtype == np.float32 else np.int32  # it has no int64
        data = np.ascontiguousarray(value, kind)
        dtype = expr.float if kind is np.float32 else expr.int
        return expr.const(data, list(data.shape), expr.NCHW, dtype)

    def run() -> list[Any]:
        results = module.forward([variable(value) for value in inputs.values()])
        results = results if isinstance(results, list) else [results]
        return [MNN.expr.convert(each, expr.NCHW).read() for each in results]

    return run


def tract(path: str, inputs: Arrays, outputs: list[str]) -> Run:
    import tract

    runnable = tract.onnx().load(path).into_model().into_runnable()
    return lambda: [each.to_numpy() for each in runnable.run(list(inputs.values()))]


def onnxsim(path: str, inputs: Arrays, outputs: list[str]) -> Run:
    import onnx
    import onnxsim

    simplified, _ = onnxsim.simplify(onnx.load(path))
    onnx.save(simplified, path + ".sim.onnx")
    return onnxruntime(path + ".sim.onnx", inputs, outputs)


TOOLS = {each.__name__: each for each in (onnxruntime, openvino, opencv, mnn, tract, onnxsim)}


def outcome(tool: str, folder: pathlib.Path) -> tuple[str, str]:
    """Loads and runs a model; returns what came of it and, for a failure, the message."""
    case = json.loads((folder / "case.json").read_text())
    with np.load(folder / "data.npz") as data:
        inputs = {name: data[f"input {name}"] for name in case["inputs"]}
        expected = [data[f"output {i}"] for i in range(len(case["outputs"]))]
    try:
        run = TOOLS[tool](str(folder / "model.onnx"), inputs, case["outputs"])
    except Exception as error:
        return "does not load", brief(error)
    try:
        results = [np.asarray(each) for each in run()]
    except Exception as error:
        return "fails when run", brief(error)
    for result, wanted in zip(results, expected, strict=False):
        if result.size != wanted.size:
            return "wrong", f"shape {result.shape} instead of {wanted.shape}"
        off = np.abs(result.reshape(wanted.shape).astype(np.float64) - wanted).max(initial=0)
        if not off <= TOLERANCE * max(1.0, float(np.abs(wanted).max(initial=0))):
            return "wrong", f"off by {off:.2g}"
    return "right", ""


def brief(error: BaseException) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())[:160]}"


def serve(tool: str) -> None:
    """Answers each folder that is written to the standard input with an outcome, as JSON."""
    answers = sys.stdout
    with contextlib.redirect_stdout(sys.stderr):
        for line in sys.stdin:
            answers.write("\n@" + json.dumps(outcome(tool, pathlib.Path(line.strip()))) + "\n")
            answers.flush()


class Server:
    """A tool in a process of its own."""

    def __init__(self, python: str, tool: str) -> None:
        self.command = [python, __file__, "--serve", tool]
        self.process: subprocess.Popen[bytes] | None = None

    def ask(self, folder: pathlib.Path) -> tuple[str, str]:
        if self.process is None:
            pipe, null = subprocess.PIPE, subprocess.DEVNULL
            self.process = subprocess.Popen(
                self.command, stdin=pipe, stdout=pipe, stderr=null, bufsize=0
            )
        assert self.process.stdin
        assert self.process.stdout
        self.process.stdin.write(f"{folder}\n".encode())
        while select.select([self.process.stdout], [], [], SECONDS)[0]:
            line = self.process.stdout.readline()
            if not line:
                code = self.process.wait()
                self.process = None
                return "ends the process", f"exit status {code}"
            if line.startswith(b"@"):
                state, message = json.loads(line[1:])
                return state, message
        self.close()
        return "timeout", f"{SECONDS:.0f} s"

    def close(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None


def has(python: str, tool: str) -> bool:
    command = [python, "-c", f"import numpy, {MODULES[tool]}"]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


# --- The models.


def cases(
    names: list[str], opsets: list[int], targets: list[str]
) -> Iterator[tuple[dict[str, Any], pathlib.Path]]:
    """Exports each model by both exporters, by ours for each target.

    Yields what it is and its folder, or why it is not exported.
    """
    sys.path[:0] = [str(ROOT / "build" / "python"), str(ROOT / "test" / "python")]
    warnings.filterwarnings("ignore")
    torch = importlib.import_module("torch")
    onnx_native = importlib.import_module("onnx_native")
    onnx_native.enable()
    running = importlib.import_module("models.running")
    architectures = importlib.import_module("models.architectures").ARCHITECTURES
    exporters = [
        ("ours", each, functools.partial(onnx_native.options, target=each)) for each in targets
    ]
    exporters.append(("PyTorch's", "", onnx_native.disabled))
    for name in names:
        model = architectures[name]
        module = model.module()
        inputs = model.example()
        expected = running.eager(module, inputs)
        for opset in opsets:
            for sizes in ("static", "dynamic"):
                shapes = model.dynamic_shapes() if sizes == "dynamic" else None
                for exporter, target, context in exporters:
                    case = {"model": name, "opset": opset, "sizes": sizes, "exporter": exporter}
                    case["target"] = target
                    with tempfile.TemporaryDirectory(prefix="onnx_native_") as scratch:
                        folder = pathlib.Path(scratch)
                        try:
                            with context():
                                program = torch.onnx.export(
                                    module,
                                    kwargs=inputs,
                                    dynamo=True,
                                    verbose=False,
                                    opset_version=opset,
                                    dynamic_shapes=shapes,
                                )
                            write(folder, program.model_proto, inputs, expected)
                        except Exception as error:
                            case["error"] = brief(error)
                        yield case, folder


def write(folder: pathlib.Path, model: Any, inputs: Arrays, expected: list[Any]) -> None:
    """Writes what outcome() reads: the model, its inputs by name, and the results, as arrays."""
    (folder / "model.onnx").write_bytes(model.SerializeToString())
    names = [value.name for value in model.graph.input]
    outputs = [value.name for value in model.graph.output]
    (folder / "case.json").write_text(json.dumps({"inputs": names, "outputs": outputs}))
    arrays: Arrays = {f"input {name}": np.asarray(inputs[name]) for name in names}
    arrays |= {f"output {i}": np.asarray(each) for i, each in enumerate(expected)}
    np.savez(folder / "data.npz", **arrays)


# --- The page.


def target_of(tool: str) -> str:
    return tool if tool in TARGETS else "onnx"


def tools_of(row: dict[str, Any], tools: Iterable[str]) -> list[str]:
    """Returns the tools that a model is written for."""
    return [tool for tool in tools if row["exporter"] != "ours" or row["target"] == target_of(tool)]


def page(rows: list[dict[str, Any]], versions: dict[str, str]) -> str:
    tools = list(versions)
    exporters = ["ours", "PyTorch's"]
    count: dict[Any, collections.Counter[str]] = collections.defaultdict(collections.Counter)
    for row in rows:
        for tool in tools_of(row, tools):
            kind = (row["opset"], row["sizes"], tool, row["exporter"])
            count[kind]["all"] += 1
            count[kind][row["tools"].get(tool, ("no model", ""))[0]] += 1
    lines = [
        "# Exported models in other tools",
        "",
        "`python benchmarks/tools.py` writes this page. It exports models of `test/python/models`",
        "(real architectures, small, random weights), and counts those with which a tool gives",
        f"eager's results: ours / PyTorch's, of {len({row['model'] for row in rows})} models.",
        "Ours are written for OpenCV and MNN by `onnx_native.options(target=...)`: see",
        "[targets.md](targets.md).",
        "",
        "| opset | sizes | " + " | ".join(f"{t} {v}" for t, v in versions.items()) + " |",
        "| --- | --- |" + " --- |" * len(tools),
    ]
    for opset, sizes in dict.fromkeys((row["opset"], row["sizes"]) for row in rows):
        cells = [
            " / ".join(str(count[opset, sizes, tool, each]["right"]) for each in exporters)
            for tool in tools
        ]
        lines.append(f"| {opset} | {sizes} | " + " | ".join(cells) + " |")
    lines += ["", "## Not right", "", "| tool | exporter | outcome | models |", "| --- |" * 1]
    lines[-1] = "| --- | --- | --- | --- |"
    found: dict[tuple[str, str, str, str], list[str]] = collections.defaultdict(list)
    for row in rows:
        where = f"{row['opset']} {row['sizes']}"
        if "error" in row:
            found["-", row["exporter"], "is not exported", row["error"]].append(row["model"])
        for tool, (state, message) in row["tools"].items():
            if state != "right":
                text = message.replace("|", "\\|").replace("`", "'")
                found[tool, row["exporter"], state, text].append(f"{row['model']} ({where})")
    for (tool, exporter, state, message), where_all in sorted(found.items()):
        models = ", ".join(dict.fromkeys(where_all))
        lines.append(f"| {tool} | {exporter} | {state}: {message} | {models} |")
    return "\n".join(lines) + "\n"


def version(python: str, tool: str) -> str:
    code = f"import {MODULES[tool]} as m; print('\\n@', getattr(m, '__version__', ''))"
    package = {"opencv": "opencv-python-headless"}.get(tool, tool)
    other = f"import importlib.metadata as m; print('\\n@', m.version('{package}'))"
    for each in (other, code):
        done = subprocess.run([python, "-c", each], capture_output=True, text=True, check=False)
        if done.returncode == 0:
            return done.stdout.rpartition("@")[2].split("-")[0].strip()
    return ""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--models", default=MODELS.replace(" ", ","))
    parser.add_argument("--opsets", default="13,17,20")
    parser.add_argument("--tools", default=",".join(TOOLS))
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--output", type=pathlib.Path, default=ROOT / "docs" / "tools.md")
    parser.add_argument("--serve", choices=TOOLS, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve:
        serve(given.serve)
        return
    servers, versions = {}, {}
    for tool in given.tools.split(","):
        python = next((each for each in (sys.executable, given.python) if has(each, tool)), None)
        if python is None:
            print(f"{tool} is not installed")
            continue
        servers[tool], versions[tool] = Server(python, tool), version(python, tool)
    rows: list[dict[str, Any]] = []
    opsets = [int(each) for each in given.opsets.split(",")]
    targets = sorted({target_of(tool) for tool in servers})
    for row, folder in cases(given.models.split(","), opsets, targets):
        row["tools"] = {}
        if "error" not in row:
            row["tools"] = {tool: servers[tool].ask(folder) for tool in tools_of(row, servers)}
        rows.append(row)
        states = " ".join(f"{tool}: {state}." for tool, (state, _) in row["tools"].items())
        print(
            *(row[key] for key in ("model", "opset", "sizes", "exporter")), row.get("error", states)
        )
        given.output.write_text(page(rows, versions))
    for server in servers.values():
        server.close()


if __name__ == "__main__":
    main()
