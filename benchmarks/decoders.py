"""Measures exported decoders: tokens equal to eager's, time per token after 1024, and memory.

    python benchmarks/decoders.py                      all; writes docs/benchmarks/decoders.md
    python benchmarks/decoders.py --models llama,gpt2 --output /tmp/report

Tokens are those of the small models of test/python/decoders/test_decoder.py. Times are those of
larger models for one token in one thread, with IO binding: the least of many runs; the exporters
take turns. PyTorch's exporter runs through transformers' OnnxExporter, whose "decode" takes one
token. The difference is that of the logits to eager's. Memory is what loading the model and ten
steps add to a process of their own. All models have their weights in external data.
"""

import argparse
import contextlib
import datetime
import functools
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import time
import warnings
from typing import Any

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / each) for each in ("build/python", "test/python", "examples")]
warnings.filterwarnings("ignore")

import numpy as np  # noqa: E402
import onnxruntime  # noqa: E402

PAST, ROOM, BATCH = 1024, 1280, 1
SHARED = "onnx_native, onnxruntime-cpu"  # past and present are one buffer
OPSETS = (20, 23)
STEPS = 64
COLUMNS: dict[str, tuple[int, Any]] = {
    "opset 20": (20, "onnx"),
    "opset 23": (23, "onnx"),
    "opset 20, onnxruntime-cpu": (20, "onnxruntime-cpu"),
    "opset 23, onnxruntime-cpu": (23, "onnxruntime-cpu"),
}
SIZES: dict[str, Any] = {
    "vocab_size": 8000,
    "hidden_size": 512,
    "intermediate_size": 1376,
    "num_hidden_layers": 4,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "head_dim": 64,
    "max_position_embeddings": 4096,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
# The windows are larger than the past, so that all exporters have the same to compute.
WINDOW = {"sliding_window": 1536}
MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "llama": ("LlamaForCausalLM", SIZES),
    "qwen3": ("Qwen3ForCausalLM", SIZES),
    "gemma2": ("Gemma2ForCausalLM", {**SIZES, **WINDOW}),
    "phi3": ("Phi3ForCausalLM", SIZES),
    "gpt2": (
        "GPT2LMHeadModel",
        {
            "vocab_size": 8000,
            "n_embd": 512,
            "n_layer": 4,
            "n_head": 8,
            "n_positions": 4096,
            "bos_token_id": 1,
            "eos_token_id": 2,
        },
    ),
    "mistral": ("MistralForCausalLM", {**SIZES, **WINDOW}),
    "mixtral": ("MixtralForCausalLM", {**SIZES, "num_local_experts": 4}),
}
THEIRS = {
    "PyTorch's": {},
    'PyTorch\'s, ort_fusions="cpu"': {"ort_fusions": "cpu"},
}


def session(path: pathlib.Path, *, optimized: bool = True) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    if not optimized:
        level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        options.graph_optimization_level = level
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


class Step:
    """One step of a decoder whose inputs and outputs stay in ONNX Runtime."""

    def __init__(self, path: pathlib.Path, feeds: dict[str, Any]) -> None:
        self.session = session(path)
        self.binding = self.session.io_binding()
        self.names = [each.name for each in self.session.get_outputs()]
        self.values = {}  # they hold the memory
        for each in self.session.get_inputs():
            value = onnxruntime.OrtValue.ortvalue_from_numpy(feeds[each.name])
            self.values[each.name] = value
            self.binding.bind_ortvalue_input(each.name, value)
        config = path.with_name("genai_config.json")
        search = json.loads(config.read_text())["search"] if config.exists() else {}
        self.shares_buffers = search.get("past_present_share_buffer", False)

    def run(self) -> None:
        for name in self.names:
            past = name.replace("present.", "past_key_values.")
            if self.shares_buffers and past in self.values:
                self.binding.bind_ortvalue_output(name, self.values[past])
            else:
                self.binding.bind_output(name)
        self.session.run_with_iobinding(self.binding)

    def logits(self) -> Any:
        self.run()
        return self.binding.get_outputs()[self.names.index("logits")].numpy()


def memory(path: pathlib.Path, feeds: pathlib.Path) -> float:
    """Returns the MiB that a model adds to a process of its own."""
    command = [sys.executable, __file__, "--memory", str(path), str(feeds)]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def print_memory(path: pathlib.Path, feeds: pathlib.Path) -> None:
    given = dict(np.load(feeds))

    def peak() -> float:
        status = pathlib.Path("/proc/self/status").read_text()
        return int(status.partition("VmHWM:")[2].split()[0]) / 1024

    before = peak()
    step = Step(path, given)
    for _ in range(10):
        step.run()
    print(peak() - before)


class Example:
    """A model after 1024 tokens, and what eager computes for the next one."""

    def __init__(self, name: str) -> None:
        import torch
        import transformers

        kind, settings = MODELS[name]
        prefix = kind.partition("For")[0].removesuffix("LMHeadModel")
        torch.manual_seed(0)
        config = getattr(transformers, f"{prefix}Config")(**settings)
        self.model: Any = getattr(transformers, kind)(config).eval()
        ids = torch.randint(3, 8000, (BATCH, PAST + 1))
        with torch.no_grad():
            past = self.model(input_ids=ids[:, :-1]).past_key_values
            self.layers = [(each.keys.clone(), each.values.clone()) for each in past.layers]
            self.expected = self.model(input_ids=ids[:, -1:], past_key_values=past).logits.numpy()
        self.feeds = {
            "input_ids": ids[:, -1:].numpy(),
            "attention_mask": np.ones((BATCH, PAST + 1), np.int64),
            "position_ids": np.full((BATCH, 1), PAST),
        }
        self.window = getattr(config, "sliding_window", None)

    def named(self, path: pathlib.Path, *, has_buffers: bool) -> dict[str, Any]:
        """Returns values for the inputs of an exported model."""
        found = {}
        for each in session(path, optimized=False).get_inputs():
            cached = re.fullmatch(r".*past_key_values\D*(\d+)\.(key|value)s?", each.name)
            if cached:
                which = 0 if cached[2] == "key" else 1
                found[each.name] = self.layers[int(cached[1])][which].numpy()
                if has_buffers:  # with room for the new element
                    room = ((0, 0), (0, 0), (0, ROOM - PAST), (0, 0))
                    found[each.name] = np.pad(found[each.name], room)
            elif each.name.endswith("_sliding_window_tensor"):
                found[each.name] = np.array(self.window)
            else:
                found[each.name] = self.feeds[each.name.removeprefix("input.")]
        return found


def export_theirs(model: Any, folder: pathlib.Path, settings: dict[str, Any]) -> pathlib.Path:
    import onnx_native
    import torch
    from transformers.exporters.exporter_onnx import OnnxConfig, OnnxExporter

    ids = torch.randint(3, 99, (2, 7))
    inputs: Any = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    config = OnnxConfig(dynamic=True, **settings)
    with onnx_native.disabled():
        exported = OnnxExporter().export_for_generation(model, inputs, config=config)
    exported.save_pretrained(folder)
    return folder / "decode.onnx"


def export_ours(model: Any, folder: pathlib.Path, opset: int, target: Any) -> pathlib.Path:
    import onnx_native

    exported = onnx_native.export_decoder(model, opset_version=opset, target=target)
    exported.save(folder, external_data=True)
    return folder / "model.onnx"


def exporters() -> dict[str, Any]:
    ours: dict[str, Any] = {
        f"onnx_native, opset {opset}": functools.partial(export_ours, opset=opset, target="onnx")
        for opset in OPSETS
    }
    ours[SHARED] = functools.partial(export_ours, opset=OPSETS[-1], target="onnxruntime-cpu")
    theirs = {
        name: functools.partial(export_theirs, settings=settings)
        for name, settings in THEIRS.items()
    }
    return {**ours, **theirs}


def measure(name: str, rounds: int) -> dict[str, dict[str, Any]]:
    """Returns milliseconds, MiB and the largest difference of each exporter's model."""
    example = Example(name)
    results: dict[str, dict[str, Any]] = {}
    steps: dict[str, Step] = {}
    with tempfile.TemporaryDirectory(prefix="onnx_native_") as scratch:
        for number, (who, export) in enumerate(exporters().items()):
            folder = pathlib.Path(scratch) / str(number)
            result = results[who] = {}
            try:
                start = time.perf_counter()
                path = export(example.model, folder)
                result["export"] = time.perf_counter() - start
                feeds = example.named(path, has_buffers=who == SHARED)
                steps[who] = Step(path, feeds)
                difference = np.abs(steps[who].logits() - example.expected).max()
                result["difference"] = float(difference)
                np.savez(folder / "feeds.npz", **feeds)
                result["memory"] = memory(path, folder / "feeds.npz")
            except Exception as error:
                result["error"] = f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
                steps.pop(who, None)
        least = dict.fromkeys(steps, float("inf"))
        for _ in range(rounds):
            for who, step in steps.items():
                step.run()  # brings the weights into the cache
                start = time.perf_counter()
                step.run()
                least[who] = min(least[who], time.perf_counter() - start)
        for who, seconds in least.items():
            results[who]["milliseconds"] = seconds * 1000
        steps.clear()
    return results


def count_tokens() -> dict[str, dict[str, list[int]]]:
    """Returns for each small model and opset how many tokens equal eager's, of how many."""
    import generate
    import onnx_native
    import test_decoder
    import torch

    def tokens(name: str, folder: str, batch: int, model: Any) -> tuple[Any, Any]:
        ids, mask = test_decoder.prompts(batch)
        runtime = generate.Decoder(folder, optimized=False)
        source, start = None, None
        if name == "T5":
            ids, mask = ids.flip(1), mask.flip(1)
            source = {"input_ids": ids.numpy(), "attention_mask": mask.numpy()}
            start = torch.ones(batch, 1, dtype=torch.int64)
            given = {"input_ids": ids, "attention_mask": mask}
        elif name == "Whisper":
            sound = torch.randn(batch, 8, 60)
            source = {"audio_features": sound.numpy()}
            start = torch.ones(batch, 1, dtype=torch.int64)
            given = {"input_features": sound, "decoder_input_ids": start}
        else:
            given = {"input_ids": ids, "attention_mask": mask}
        expected, _ = test_decoder.eager(model, batch, STEPS, **given)
        if start is not None:
            ids = mask = start
        got, _ = runtime.generate(ids.numpy(), mask.numpy(), STEPS, source=source)
        return got, expected

    makers: dict[str, Any] = {
        name: functools.partial(test_decoder.decoder, name) for name in test_decoder.DECODERS
    }
    makers |= {"T5": test_decoder.t5, "Whisper": test_decoder.whisper}
    counts: dict[str, dict[str, list[int]]] = {}
    for name, make in makers.items():
        model = make()
        for column, (opset, target) in COLUMNS.items():
            if name in ("T5", "Whisper") and target != "onnx":
                continue
            equal = [0, 0]
            with tempfile.TemporaryDirectory(prefix="onnx_native_") as folder:
                onnx_native.export_decoder(model, folder, opset_version=opset, target=target)
                for batch in (1, 3):
                    got, expected = tokens(name, folder, batch, model)
                    equal[0] += int((got == expected).sum())
                    equal[1] += expected.size
            counts.setdefault(name, {})[column] = equal
        print(name, counts[name], flush=True)
    return counts


def report(counts: dict[str, Any], results: dict[str, Any]) -> str:
    lines = [
        "# Decoders",
        "",
        "`python benchmarks/decoders.py`, on ONNX Runtime's CPU provider, "
        f"version {onnxruntime.__version__}, on {datetime.date.today()}.",
        "",
        "## Tokens",
        "",
        f"Greedy tokens equal to those of eager PyTorch's `generate()` over {STEPS} steps, batches "
        "1 and 3, prompts padded",
        "on the left, small models with random weights, ONNX Runtime without optimizations:",
        "",
        "| model | " + " | ".join(COLUMNS) + " |",
        "| --- |" + " --: |" * len(COLUMNS),
    ]
    for name, found in counts.items():
        cells = ("{} of {}".format(*found[each]) if each in found else "" for each in COLUMNS)
        lines.append(f"| {name} | {' | '.join(cells)} |")
    sizes = "4 layers, hidden size 512, 8 heads (2 of keys, except GPT-2), 8000 tokens, float32"
    lines += [
        "",
        f"## One token after {PAST}",
        "",
        f"Batch {BATCH}, one thread, {sizes}. PyTorch's",
        "exporter runs through transformers' `OnnxExporter` (`export_for_generation`; its `decode` "
        "takes one token, ours any",
        "number). Memory is what loading the model and ten steps add to the peak of a process. The "
        "difference is the largest of",
        "the logits to eager's. With `onnxruntime-cpu` past and present are one buffer with room "
        f"for {ROOM} tokens.",
        "",
        "| model | exporter | ms per token | memory (MiB) | export (s) | difference |",
        "| --- | --- | --: | --: | --: | --: |",
    ]
    for name, found in results.items():
        for who, each in found.items():
            if "error" in each:
                lines.append(f"| {name} | {who} | not measured: {each['error'][:90]} | | | |")
                continue
            lines.append(
                f"| {name} | {who} | {each['milliseconds']:.2f} | {each['memory']:.0f} "
                f"| {each['export']:.1f} | {each['difference']:.1e} |"
            )
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--models", default=",".join(MODELS), help="names, with commas")
    parser.add_argument("--rounds", type=int, default=100, help="runs per time (default 100)")
    parser.add_argument("--output", type=pathlib.Path, default=ROOT / "docs" / "benchmarks")
    parser.add_argument("--memory", nargs=2, type=pathlib.Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.memory:
        print_memory(*arguments.memory)
        return
    import onnx_native
    import torch
    from models.torchvision_kernels import load_torchvision_kernels

    load_torchvision_kernels()  # transformers imports torchvision
    torch.ops.load_library(onnx_native.library_path())
    torch.set_num_threads(1)
    counts = count_tokens()
    results = {}
    for name in arguments.models.split(","):
        with contextlib.redirect_stdout(sys.stderr):  # PyTorch's exporter prints its progress
            results[name] = measure(name, arguments.rounds)
        print(name, json.dumps(results[name], indent=1), flush=True)
    arguments.output.mkdir(parents=True, exist_ok=True)
    text = report(counts, results)
    (arguments.output / "decoders.md").write_text(text)
    print(text)


if __name__ == "__main__":
    main()
