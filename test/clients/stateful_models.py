"""Compares the tokens of exported decoders with states with those of transformers.

The models are small, with random weights: state spaces, linear attentions, short convolutions, and
hybrids of them with attention. Each generates 64 tokens
from prompts of several lengths, in batches of one and of three that are padded on the left. Prints
how many rows of tokens are right, the largest difference of the logits, the seconds of the export,
the bytes of the tensors in the model beside those of the weights, and the milliseconds of a token
in ONNX Runtime and in eager. With onnxruntime-genai installed, it runs the folders that it
describes to it too. Words of the names choose models.
"""

from __future__ import annotations

import importlib.util
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
from models import stateful

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "examples"))

import generate

STEPS = 64
LENGTHS = (1, 5, 24, 33, 70)
# They do not read a mask, and one of them mixes the rows of a batch in its steps.
WITHOUT_MASK = ("Rwkv", "xLSTM")
Compared = tuple[int, int, float, float]


def prompts(name: str, batch: int, length: int) -> tuple[torch.Tensor, torch.Tensor]:
    ids, mask = stateful.prompts(batch, length)
    return (ids.clamp(min=3), torch.ones_like(mask)) if name in WITHOUT_MASK else (ids, mask)


def expected(
    name: str, model: Any, ids: torch.Tensor, mask: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    if name not in WITHOUT_MASK:
        return stateful.eager(model, ids, mask, STEPS)
    rows = [
        stateful.eager(model, *row, STEPS) for row in zip(ids.split(1), mask.split(1), strict=True)
    ]
    return torch.cat([row[0] for row in rows]), torch.cat([row[1] for row in rows])


def tokens(name: str, model: Any, folder: pathlib.Path) -> Compared:
    """Returns how many rows are right, of how many, the difference of logits, and the time."""
    runtime = generate.Decoder(folder)
    right = total = 0
    worst = 0.0
    for batch in (1, 3):
        for length in LENGTHS:
            ids, mask = prompts(name, batch, length)
            wanted, logits = expected(name, model, ids, mask)
            got, scores = runtime.generate(ids.numpy(), mask.numpy(), STEPS)
            same = (got == wanted.numpy()).all(1)
            right, total = right + int(same.sum()), total + batch
            if same.any():
                error = np.abs(scores - logits.numpy())[same].max()
                worst = max(worst, float(error / logits.abs().max()))
    return right, total, worst, milliseconds(runtime)


def milliseconds(runtime: generate.Decoder) -> float:
    """Returns the time of a step of one token."""
    ids = np.ones((1, 1), np.int64)
    past = runtime.empty_past(1)
    times = []
    for i in range(STEPS):
        begin = time.perf_counter()
        _, past = runtime.step(runtime.feeds(ids, np.ones((1, i + 1), np.int64)), past)
        times.append(time.perf_counter() - begin)
    return float(np.median(times)) * 1e3


def eager_milliseconds(model: Any) -> float:
    ids = torch.full((1, 1), 3)
    begin = time.perf_counter()
    stateful.eager(model, ids, torch.ones_like(ids), STEPS)
    return (time.perf_counter() - begin) / STEPS * 1e3


def in_genai(model: Any, folder: pathlib.Path) -> str:
    """Returns how many rows are right in onnxruntime-genai, up to the token that ends a text."""
    import onnxruntime_genai as genai

    end = model.config.get_text_config().eos_token_id
    loaded = genai.Model(str(folder))
    right = total = 0
    for batch, length in ((1, 5), (1, 33), (3, 24)):
        ids = stateful.prompts(1, length)[0] if batch == 1 else stateful.prompts(3, length)[0]
        ids = ids.clamp(min=3)
        wanted = stateful.eager(model, ids, torch.ones_like(ids), STEPS)[0]
        params = genai.GeneratorParams(loaded)
        params.set_search_options(max_length=length + STEPS, batch_size=batch)
        generator = genai.Generator(loaded, params)
        generator.append_tokens(ids.numpy().astype(np.int32))
        while not generator.is_done():
            generator.generate_next_token()
        for row in range(batch):
            got = generator.get_sequence(row)[length:].tolist()
            right += until(got, end) == until(wanted[row].tolist(), end)
            total += 1
    return f"{right} of {total} rows in onnxruntime-genai"


def until(row: list[int], end: int) -> list[int]:
    return row[: row.index(end)] if end in row else row


def tensor_bytes(graph: onnx.GraphProto) -> Iterator[int]:
    """Yields the sizes of the tensors of a graph and of the graphs in it."""
    yield from (len(each.raw_data) for each in graph.initializer)
    for node in graph.node:
        for attribute in node.attribute:
            yield len(attribute.t.raw_data)
            yield from tensor_bytes(attribute.g)


def survey(name: str) -> str:
    model = stateful.make(name)
    weights = stateful.weight_bytes(model)
    with tempfile.TemporaryDirectory() as path, warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        folder = pathlib.Path(path)
        begin = time.perf_counter()
        exported = onnx_native.export_decoder(model, folder)
        seconds = time.perf_counter() - begin
        report = exported.programs["model.onnx"].export_report["capture"]
        right, total, worst, of_runtime = tokens(name, model, folder)
        size = sum(tensor_bytes(onnx.load(folder / "model.onnx").graph))
        parts = [
            f"{right} of {total} rows",
            f"logits {worst:.0e}",
            f"{report['by']}, {seconds:.1f} s",
            f"{size:,} bytes of {weights:,}",
            f"{of_runtime:.2f} ms, eager {eager_milliseconds(model):.2f} ms",
        ]
        if exported.genai_config is not None and importlib.util.find_spec("onnxruntime_genai"):
            parts.append(in_genai(model, folder))
    parts += [
        str(each.message).split("\n")[0]
        for each in found
        if issubclass(each.category, torch.onnx.errors.OnnxExporterWarning)
    ]
    return "; ".join(parts)


def main() -> None:
    chosen = sys.argv[1:] or list(stateful.MODELS)
    for name in chosen:
        try:
            print(f"{name}: {survey(name)}", flush=True)
        except Exception as error:
            print(f"{name}: failed: {type(error).__name__}: {error}", flush=True)


if __name__ == "__main__":
    main()
