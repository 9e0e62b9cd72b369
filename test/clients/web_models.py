"""Runs exported models in onnxruntime-web, in Node.js and in headless Chromium.

    npm install --prefix build/clients/web onnxruntime-web
    PYTHONPATH=build/python:test/python .venv/bin/python test/clients/web_models.py \
        build/clients/web [--webgpu]

Both run them in WebAssembly. With `--webgpu` Chromium runs them by WebGPU, on Vulkan in software
(SwiftShader), which tells nothing of the speed on graphics cards. Models of images are compared
with eager PyTorch at two sizes, and decoders by 32 greedy tokens of two prompts of different
lengths with transformers' `generate`.
"""

from __future__ import annotations

import argparse
import base64
import functools
import http.server
import json
import pathlib
import subprocess
import sys
import tempfile
import threading
import warnings
from typing import Any

import numpy as np
import onnx_native
import onnxruntime
import torch
from models import architectures, running, torchvision_kernels

torchvision_kernels.load_torchvision_kernels()
import transformers  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent
sys.path.append(str(HERE.parent / "site"))
import browser  # noqa: E402

IMAGES = ("timm_resnet10t", "timm_mobilenetv3", "convnext", "vit", "swin", "segformer")
SIZES = {
    "vocab_size": 128, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2,
    "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16,
    "max_position_embeddings": 128, "initializer_range": 0.2,
}  # fmt: skip
# Model, and the options of its export.
DECODERS: dict[str, tuple[str, dict[str, Any]]] = {
    "llama": ("Llama", {"target": "onnx"}),
    "llama, onnxruntime-cpu": ("Llama", {"target": "onnxruntime-cpu"}),
    "gemma2": ("Gemma2", {"target": "onnx"}),
    "qwen3, onnxruntime-cpu": ("Qwen3", {"target": "onnxruntime-cpu"}),
    "qwen3, onnxruntime-webgpu": ("Qwen3", {"target": "onnxruntime-webgpu"}),
}
SOFTWARE = ("--enable-unsafe-webgpu", "--use-webgpu-adapter=swiftshader")
STEPS = 32
TOLERANCE = 2e-3  # of the largest element
KINDS = {"tensor(float)": np.float32, "tensor(float16)": np.float16}
NODE = """
const [folder, packages, provider] = process.argv.slice(1);
const fs = await import("node:fs/promises");
const ort = await import(`${packages}/node_modules/onnxruntime-web/dist/ort.node.min.mjs`);
const { run } = await import(`${folder}/web_models.mjs`);
const read = async (name) => new Uint8Array(await fs.readFile(`${folder}/${name}`));
console.log("@" + JSON.stringify(await run(ort, read, provider)));
"""
PAGE = """<!DOCTYPE html><title>models</title><script type="module">
import * as ort from "/dist/%(bundle)s";
import { run } from "/web_models.mjs";
const read = async (name) => new Uint8Array(await (await fetch("/" + name)).arrayBuffer());
try { window.results = JSON.stringify(await run(ort, read, "%(provider)s")); }
catch (error) { window.results = JSON.stringify({ page: { error: String(error) } }); }
</script>"""


def encoded(value: Any) -> list[Any]:
    array = np.ascontiguousarray(value)
    return [str(array.dtype), list(array.shape), base64.b64encode(array.tobytes()).decode()]


def image_case(folder: pathlib.Path, name: str) -> tuple[dict[str, Any], list[Any]]:
    """Exports a model of images; returns what to ask of it, and eager's results."""
    made = architectures.ARCHITECTURES[name]
    module, path = made.module(), folder / f"{name}.onnx"
    sets = [made.example(which) for which in (0, 1)]
    torch.onnx.export(
        module, kwargs=sets[0], f=path, dynamo=True, dynamic_shapes=made.dynamic_shapes(),
        verbose=False,
    )  # fmt: skip
    outputs = [each.name for each in onnxruntime.InferenceSession(path).get_outputs()]
    asked = {
        "model": path.name,
        "data": f"{path.name}.data",
        "outputs": outputs,
        "sets": [{key: encoded(x.numpy()) for key, x in each.items()} for each in sets],
    }
    return asked, [running.eager(module, each) for each in sets]


def decoder_case(folder: pathlib.Path, name: str) -> tuple[dict[str, Any], list[list[int]]]:
    """Exports a decoder; returns what to ask of it, and the tokens that transformers generates."""
    kind, options = DECODERS[name]
    torch.manual_seed(0)
    config = getattr(transformers, f"{kind}Config")(**SIZES)
    model = getattr(transformers, f"{kind}ForCausalLM")(config).eval()
    place = folder / f"decoder{len(list(folder.iterdir()))}"
    onnx_native.export_decoder(model, place, **options)
    ids = torch.randint(3, 128, (2, 7), generator=torch.Generator().manual_seed(1))
    mask = torch.ones_like(ids)
    mask[1, :3] = 0
    tokens = model.generate(
        ids, attention_mask=mask, max_new_tokens=STEPS, do_sample=False, eos_token_id=None,
        pad_token_id=0,
    )  # fmt: skip
    shares = json.loads((place / "genai_config.json").read_text())["search"]
    room = ids.shape[1] + STEPS if shares["past_present_share_buffer"] else 0
    session = onnxruntime.InferenceSession(place / "model.onnx")
    past = {
        each.name: encoded(np.zeros([2, each.shape[1], room, each.shape[3]], KINDS[each.type]))
        for each in session.get_inputs()
        if each.name.startswith("past")
    }
    asked = {
        "model": f"{place.name}/model.onnx",
        "prompt": ids.tolist(),
        "mask": mask.tolist(),
        "steps": STEPS,
        "past": past,
    }
    return asked, tokens[:, ids.shape[1] :].T.tolist()


def outcome(result: dict[str, Any], expected: list[Any]) -> str:
    """Returns what came of a model: "right" with its time, or else what is wrong."""
    if "error" in result:
        return f"fails: {result['error']}"
    found = result["value"]
    time = f"{result['milliseconds']:.0f} ms"
    if isinstance(expected[0][0], int):
        total = sum(map(len, expected))
        pairs = zip(found, expected, strict=True)
        equal = sum(a == b for got, wanted in pairs for a, b in zip(got, wanted, strict=True))
        return f"{'right' if equal == total else 'WRONG'}, {equal} of {total} tokens, {time}"
    worst = 0.0
    for got, wanted in zip(found, expected, strict=True):
        for (dtype, shape, data), tensor in zip(got, wanted, strict=True):
            array = np.frombuffer(base64.b64decode(data), dtype).reshape(shape)
            if array.shape != tuple(tensor.shape):
                return f"WRONG, {array.shape} for {tuple(tensor.shape)}"
            scale = max(float(tensor.abs().max()), 1e-6)
            worst = max(worst, float(np.abs(array - tensor.numpy()).max()) / scale)
    return f"{'right' if worst < TOLERANCE else 'WRONG'}, {worst:.0e} of the largest, {time}"


def in_node(folder: pathlib.Path, packages: pathlib.Path, provider: str) -> dict[str, Any]:
    command = ["node", "--input-type=module", "-e", NODE, str(folder), str(packages), provider]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=600)
    if done.returncode != 0:
        raise RuntimeError(done.stderr)
    return json.loads(done.stdout.rpartition("@")[2])  # type: ignore[no-any-return]


class Handler(http.server.SimpleHTTPRequestHandler):
    """Serves a folder."""

    def log_message(self, *_: Any) -> None:
        pass


def in_chromium(folder: pathlib.Path, packages: pathlib.Path, provider: str) -> dict[str, Any]:
    bundle = "ort.wasm.min.mjs" if provider == "wasm" else "ort.webgpu.min.mjs"
    (folder / "index.html").write_text(PAGE % {"bundle": bundle, "provider": provider})
    (folder / "dist").symlink_to(packages / "node_modules" / "onnxruntime-web" / "dist")
    handler = functools.partial(Handler, directory=str(folder))
    types = {".mjs": "text/javascript", ".wasm": "application/wasm", "": "text/html"}
    Handler.extensions_map = types
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        with browser.started(*(SOFTWARE if provider == "webgpu" else ())) as page:
            page.open(f"http://127.0.0.1:{server.server_port}/index.html")
            return json.loads(page.wait("window.results", seconds=600))  # type: ignore[no-any-return]
    finally:
        server.shutdown()


RUNS = {"Node.js": in_node, "Chromium": in_chromium}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("packages", type=pathlib.Path, help="a folder with node_modules")
    parser.add_argument("--webgpu", action="store_true", help="by WebGPU, in Chromium alone")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.ops.load_library(onnx_native.library_path())
    with tempfile.TemporaryDirectory(prefix="onnx_native_") as scratch:
        folder = pathlib.Path(scratch)
        cases = {name: image_case(folder, name) for name in IMAGES}
        cases |= {name: decoder_case(folder, name) for name in DECODERS}
        (folder / "case.json").write_text(
            json.dumps({name: each[0] for name, each in cases.items()})
        )
        (folder / "web_models.mjs").symlink_to(HERE / "web_models.mjs")
        for where, run in [("Chromium", in_chromium)] if given.webgpu else RUNS.items():
            results = run(folder, given.packages.resolve(), "webgpu" if given.webgpu else "wasm")
            for name, (_, expected) in cases.items():
                print(
                    f"{where}: {name}: {outcome(results.get(name, results.get('page')), expected)}"
                )


if __name__ == "__main__":
    main()
