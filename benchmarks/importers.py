"""Tools that load ONNX files: each runs in a process of its own, beside eager PyTorch's results.

tools.py counts what they make of models, csrc/onnx/generate_importers.py of single operators. A
tool is started again after a crash or a timeout. Nothing is installed here.
"""

import argparse
import base64
import contextlib
import json
import pathlib
import select
import shutil
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

PACKAGES = {  # a tool's Python package, and what it is called where it is installed from
    "onnxruntime": ("onnxruntime", "onnxruntime"),
    "openvino": ("openvino", "openvino"),
    "opencv": ("cv2", "opencv-python-headless"),
    "mnn": ("MNN", "mnn"),
    "tract": ("tract", "tract"),
    "onnxsim": ("onnxsim", "onnxsim"),
    "iree": ("iree.compiler, iree.runtime", "iree-base-compiler"),
    "tvm": ("tvm.relax", "apache-tvm"),
}
WEB = "onnxruntime-web"  # a package of Node.js; NODE_PATH names the folder that it is in
TARGETS = ("opencv", "mnn", "tract")  # tools that options(target=...) knows; others: "onnx"
SECONDS = 60.0  # for one model in one tool
TOLERANCE = 2e-3  # of the largest element

Arrays = dict[str, Any]
Run = Callable[[Arrays], list[Any]]

# --- The tools: each takes names of inputs and outputs, and returns what runs the loaded model.


def onnxruntime(path: str, inputs: list[str], outputs: list[str]) -> Run:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(path, options)
    return lambda arrays: session.run(outputs, arrays)


def openvino(path: str, inputs: list[str], outputs: list[str]) -> Run:
    import openvino

    compiled = openvino.Core().compile_model(path, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})

    def run(arrays: Arrays) -> list[Any]:
        results = compiled(arrays)
        return [results[i] for i in range(len(outputs))]

    return run


def opencv(path: str, inputs: list[str], outputs: list[str]) -> Run:
    import cv2

    net = cv2.dnn.readNetFromONNX(path)

    def run(arrays: Arrays) -> list[Any]:
        for name, value in arrays.items():
            net.setInput(value, name)
        return list(net.forward(outputs))

    return run


def mnn(path: str, inputs: list[str], outputs: list[str]) -> Run:
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
        said = " ".join(done.stdout.split())[-200:]
        raise RuntimeError(f"exit status {done.returncode}: {said}")
    module = nn.load_module_from_file(converted, inputs, outputs)

    def variable(value: Any) -> Any:
        kind = np.float32 if value.dtype == np.float32 else np.int32  # it has no int64
        data = np.ascontiguousarray(value, kind)
        dtype = expr.float if kind is np.float32 else expr.int
        return expr.const(data, list(data.shape), expr.NCHW, dtype)

    def run(arrays: Arrays) -> list[Any]:
        results = module.forward([variable(value) for value in arrays.values()])
        results = results if isinstance(results, list) else [results]
        return [MNN.expr.convert(each, expr.NCHW).read() for each in results]

    return run


def tract(path: str, inputs: list[str], outputs: list[str]) -> Run:
    import tract

    runnable = tract.onnx().load(path).into_model().into_runnable()
    return lambda arrays: [each.to_numpy() for each in runnable.run(list(arrays.values()))]


def onnxsim(path: str, inputs: list[str], outputs: list[str]) -> Run:
    import onnx
    import onnxsim

    simplified, _ = onnxsim.simplify(onnx.load(path))
    onnx.save(simplified, path + ".sim.onnx")
    return onnxruntime(path + ".sim.onnx", inputs, outputs)


def onnxruntime_web(path: str, inputs: list[str], outputs: list[str]) -> Run:
    def run(arrays: Arrays) -> list[Any]:
        asked = {
            "path": path,
            "outputs": outputs,
            "inputs": {name: [str(x.dtype), x.shape, encoded(x)] for name, x in arrays.items()},
        }
        done = subprocess.run(
            ["node", "-e", SCRIPT_OF_WEB],
            check=False,
            input=json.dumps(asked),
            capture_output=True,
            text=True,
            timeout=SECONDS,
        )
        if done.returncode != 0:
            raise RuntimeError(done.stderr)
        results = json.loads(done.stdout.rpartition("@")[2])
        return [
            np.frombuffer(base64.b64decode(data), dtype).reshape(shape)
            for dtype, shape, data in results
        ]

    run({})  # loads the model only
    return run


SCRIPT_OF_WEB = """
const ort = require("onnxruntime-web");
const fs = require("node:fs");
const kinds = {float32: [Float32Array, "float32"], int64: [BigInt64Array, "int64"],
               int32: [Int32Array, "int32"], bool: [Uint8Array, "bool"]};
async function main() {
  ort.env.logLevel = "fatal";
  ort.env.wasm.numThreads = 1;
  const asked = JSON.parse(fs.readFileSync(0, "utf8"));
  const session = await ort.InferenceSession.create(asked.path, {logSeverityLevel: 4});
  const feeds = {};
  for (const [name, [kind, shape, text]] of Object.entries(asked.inputs)) {
    const bytes = new Uint8Array(Buffer.from(text, "base64"));
    feeds[name] = new ort.Tensor(kinds[kind][1], new kinds[kind][0](bytes.buffer), shape);
  }
  if (session.inputNames.length && !Object.keys(feeds).length) return console.log("@[]");
  const results = await session.run(feeds);
  console.log("@" + JSON.stringify(asked.outputs.map(name => {
    const {type, dims, data} = results[name];
    const bytes = Buffer.from(data.buffer, data.byteOffset, data.byteLength);
    return [type, dims, bytes.toString("base64")];
  })));
}
main().catch(error => { console.error(error.message); process.exit(1); });
"""


def encoded(value: Any) -> str:
    return base64.b64encode(np.ascontiguousarray(value).tobytes()).decode()


def iree(path: str, inputs: list[str], outputs: list[str]) -> Run:
    import iree.compiler
    import iree.runtime

    command = [sys.executable, "-m", "iree.compiler.tools.import_onnx", path, "-o", path + ".mlir"]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=SECONDS)
    if done.returncode != 0:
        raise RuntimeError(done.stderr[-1000:])
    compiled = iree.compiler.tools.compile_file(
        path + ".mlir",
        target_backends=["llvm-cpu"],
        extra_args=["--iree-llvmcpu-target-cpu=host"],
    )
    module = iree.runtime.load_vm_flatbuffer(compiled, driver="local-sync")
    names = module.vm_module.function_names
    (function,) = (name for name in names if not name.startswith("__") and "$" not in name)

    def run(arrays: Arrays) -> list[Any]:
        results = getattr(module, function)(*arrays.values())
        return [each.to_host() for each in (results if len(outputs) > 1 else [results])]

    return run


def tvm(path: str, inputs: list[str], outputs: list[str]) -> Run:
    import onnx
    import tvm
    import tvm.relax.frontend.onnx

    module = tvm.relax.frontend.onnx.from_onnx(onnx.load(path), keep_params_in_input=False)
    machine = tvm.relax.VirtualMachine(tvm.compile(module, target="llvm"), tvm.cpu())

    def run(arrays: Arrays) -> list[Any]:
        results = machine["main"](*(tvm.runtime.tensor(each) for each in arrays.values()))
        return [each.numpy() for each in (results if len(outputs) > 1 else [results])]

    return run


TOOLS: dict[str, Callable[[str, list[str], list[str]], Run]] = {
    "onnxruntime": onnxruntime,
    "openvino": openvino,
    "opencv": opencv,
    "mnn": mnn,
    "tract": tract,
    "onnxsim": onnxsim,
    WEB: onnxruntime_web,
    "iree": iree,
    "tvm": tvm,
}


def outcome(tool: str, folder: pathlib.Path) -> tuple[str, str]:
    """Loads a model and runs it on each set of its data; returns what came of it, and a message."""
    case = json.loads((folder / "case.json").read_text())
    try:
        run = TOOLS[tool](str(folder / "model.onnx"), case["inputs"], case["outputs"])
    except Exception as error:
        return "does not load", brief(error)
    for which in range(case["sets"]):
        where = " at other sizes" if which else ""
        with np.load(folder / f"data{which}.npz") as data:
            inputs = {name: data[f"input {name}"] for name in case["inputs"]}
            expected = [data[f"output {i}"] for i in range(len(case["outputs"]))]
        try:
            results = [np.asarray(each) for each in run(inputs)]
        except Exception as error:
            return "fails" + where, brief(error)
        message = difference(results, expected)
        if message:
            return "wrong" + where, message
    return "right", ""


def difference(results: list[Any], expected: list[Any]) -> str:
    """Returns how the results differ; empty if they do not."""
    for result, wanted in zip(results, expected, strict=False):
        if result.size != wanted.size:
            return f"shape {result.shape} instead of {wanted.shape}"
        off = np.abs(result.reshape(wanted.shape).astype(np.float64) - wanted).max(initial=0)
        if not off <= TOLERANCE * max(1.0, float(np.abs(wanted).max(initial=0))):
            return f"off by {off:.2g}"
    return ""


def brief(error: BaseException) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())[:1500]}"


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
        self.command = [python, __file__, tool]
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
    return version(python, tool) != ""


def version(python: str, tool: str) -> str:
    """Returns the version of a tool; empty if the interpreter does not have it."""
    if tool == WEB:
        script = f"console.log('@' + require('{WEB}').env.versions.web)"
        command = ["node", "-e", script]
        if shutil.which("node") is None:
            return ""
    else:
        module, package = PACKAGES[tool]
        script = (
            f"import numpy, {module}, importlib.metadata as m; print('@' + m.version('{package}'))"
        )
        command = [python, "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout.rpartition("@")[2].strip() if done.returncode == 0 else ""


def write(
    folder: pathlib.Path, model: Any, inputs: Arrays, expected: list[Any], *others: Any
) -> None:
    """Writes what outcome() reads: the model, its inputs by name, and the results, as arrays.

    `others` are pairs of inputs and results at other sizes.
    """
    (folder / "model.onnx").write_bytes(model.SerializeToString())
    sets = ((inputs, expected), *others)
    names = [value.name for value in model.graph.input]
    outputs = [value.name for value in model.graph.output]
    case = {"inputs": names, "outputs": outputs, "sets": len(sets)}
    (folder / "case.json").write_text(json.dumps(case))
    for which, (given, wanted) in enumerate(sets):
        arrays: Arrays = {f"input {name}": np.asarray(given[name]) for name in names}
        arrays |= {f"output {i}": np.asarray(each) for i, each in enumerate(wanted)}
        np.savez(folder / f"data{which}.npz", **arrays)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("tool", choices=TOOLS)
    serve(parser.parse_args().tool)


if __name__ == "__main__":
    main()
