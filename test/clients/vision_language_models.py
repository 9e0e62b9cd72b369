"""Compares the tokens of exported models of images and sounds with those of transformers.

The models are small, with random weights. Each generates 32 tokens from a text, from one image,
from two and from three, of different sizes where the program allows it, and from a batch of two
texts with one and with two images. Sounds take the place of images in models of sounds. Prints how
many rows of tokens are right, the largest difference of the logits, the captures, the seconds of
the export, the bytes of the tensors in the files beside those of the weights, and the milliseconds
of a token in ONNX Runtime and in eager. With onnxruntime-genai installed, it runs the folders that
it describes to it too. Words of the names choose models.
"""

from __future__ import annotations

import importlib.util
import json
import pathlib
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import onnx
import onnx_native
import torch
from models import multimodal, stateful

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "examples"))

import describe

STEPS = 32
COUNTS = ([0], [1], [2], [3], [1, 2])
# They take as many images in each text of a batch.
IN_LISTS = ("SmolVLM", "Idefics2", "Idefics3")


def tokens(name: str, made: Any, folder: pathlib.Path) -> tuple[int, int, float]:
    """Returns how many rows are right, of how many, and the difference of logits."""
    model, inputs = made
    runtime = describe.Describer(folder)
    right = total = 0
    worst = 0.0
    for counts in COUNTS:
        same_counts = [1] * len(counts) if name in IN_LISTS and len(counts) > 1 else counts
        ids, mask, given, positions = multimodal.asked(name, model, inputs, same_counts)
        wanted, logits = stateful.eager(model, ids, mask, STEPS, **given)
        got, scores = multimodal.described(runtime, ids, mask, STEPS, given, positions)
        same = (got == wanted.numpy()).all(1)
        right, total = right + int(same.sum()), total + len(same)
        if same.any():
            error = np.abs(scores - logits.numpy())[same].max()
            worst = max(worst, float(error / logits.abs().max()))
    return right, total, worst


def milliseconds(name: str, made: Any, folder: pathlib.Path) -> tuple[float, float]:
    """Returns the times of a token after a text, in ONNX Runtime and in eager."""
    model, inputs = made
    runtime = describe.Describer(folder)
    ids, mask, given, _ = multimodal.asked(name, model, inputs, [0])
    arrays = {key: each.numpy() for key, each in given.items()}
    times = []
    for run in (
        lambda: runtime.describe(ids.numpy(), mask.numpy(), STEPS, given=arrays),
        lambda: stateful.eager(model, ids, mask, STEPS, **given),
    ):
        run()
        best = float("inf")
        for _ in range(3):
            begin = time.perf_counter()
            run()
            best = min(best, time.perf_counter() - begin)
        times.append(best / STEPS * 1e3)
    return times[0], times[1]


def in_genai(name: str, made: Any, folder: pathlib.Path) -> str:
    """Returns how many rows are right in onnxruntime-genai, which gets what a processor returns."""
    import onnxruntime_genai as genai

    model, inputs = made
    config = json.loads((folder / "genai_config.json").read_text())
    asked = [multimodal.asked(name, model, inputs, counts) for counts in COUNTS[:-1]]
    every = [
        stateful.eager(model, ids, mask, STEPS, **given)[0][0].tolist()
        for ids, mask, given, _ in asked
    ]
    used = {token for row in every for token in row}
    # The texts do not end.
    config["model"]["eos_token_id"] = next(i for i in range(99) if i not in used)
    (folder / "genai_config.json").write_text(json.dumps(config))
    loaded = genai.Model(str(folder))
    right, total, reasons = 0, 0, []
    for (ids, _, given, _), wanted in zip(asked, every, strict=True):
        total += 1
        params = genai.GeneratorParams(loaded)
        params.set_search_options(max_length=ids.shape[1] + STEPS, batch_size=1)
        generator = genai.Generator(loaded, params)
        tensors = genai.NamedTensors()
        tensors["input_ids"] = genai.Tensor(ids.numpy().astype(np.int32))
        if given:
            for key in config["model"]["vision"]["inputs"]:
                tensors[key] = genai.Tensor(given[key].numpy())
            places = int((ids == multimodal.PLACE).sum())
            tensors["num_image_tokens"] = genai.Tensor(np.array([places]))
        try:
            generator.set_inputs(tensors)
            while not generator.is_done():
                generator.generate_next_token()
            right += generator.get_sequence(0)[ids.shape[1] :].tolist() == wanted
        except Exception as error:
            reasons.append(str(error).splitlines()[0])
    return "; ".join([f"{right} of {total} rows in onnxruntime-genai", *reasons])


def tensors(graph: onnx.GraphProto) -> Iterator[onnx.TensorProto]:
    """Yields the tensors of a graph and of the graphs in it."""
    yield from graph.initializer
    for node in graph.node:
        for attribute in node.attribute:
            yield attribute.t
            yield from tensors(attribute.g)


def stored_bytes(files: list[pathlib.Path]) -> int:
    """Returns the bytes of the tensors in files and in their data file, each of them once."""
    places: dict[tuple[str, ...], int] = {}
    size = 0
    for file in files:
        for tensor in tensors(onnx.load(file, load_external_data=False).graph):
            where = {each.key: each.value for each in tensor.external_data}
            size += len(tensor.raw_data)
            if where:
                key = (where["location"], where.get("offset", "0"))
                places[key] = int(where["length"])
    return size + sum(places.values())


def survey(name: str) -> str:
    made = multimodal.make(name)
    model = made[0]
    weights = stateful.weight_bytes(model)
    with tempfile.TemporaryDirectory() as path, warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        folder = pathlib.Path(path)
        begin = time.perf_counter()
        exported = onnx_native.export_decoder(model, folder)
        seconds = time.perf_counter() - begin
        captures = {
            file: program.export_report["capture"]["by"]
            for file, program in exported.programs.items()
        }
        others = {file: by for file, by in captures.items() if by != "native"}
        right, total, worst = tokens(name, made, folder)
        size = stored_bytes([folder / file for file in exported.programs])
        of_runtime, of_eager = milliseconds(name, made, folder)
        parts = [
            f"{right} of {total} rows",
            f"logits {worst:.0e}",
            f"{others or 'native'}, {seconds:.1f} s",
            f"{size:,} bytes of {weights:,}",
            f"{of_runtime:.2f} ms, eager {of_eager:.2f} ms",
        ]
        if exported.genai_config is not None and importlib.util.find_spec("onnxruntime_genai"):
            parts.append(in_genai(name, made, folder))
    parts += [
        str(each.message).split("\n")[0]
        for each in found
        if issubclass(each.category, torch.onnx.errors.OnnxExporterWarning)
    ]
    return "; ".join(parts)


def main() -> None:
    for name in sys.argv[1:] or list(multimodal.MODELS):
        try:
            print(f"{name}: {survey(name)}", flush=True)
        except Exception as error:
            print(f"{name}: failed: {type(error).__name__}: {error}", flush=True)


if __name__ == "__main__":
    main()
