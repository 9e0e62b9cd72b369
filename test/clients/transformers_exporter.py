"""Exports transformers' models by its own OnnxExporter, and by torch.onnx.export directly.

OnnxExporter captures a model by torch.export.export, and gives what it captured to
torch.onnx.export. Prints the seconds of both and the largest difference of the results, for
PyTorch's exporter and ours; then the seconds of a direct call of torch.onnx.export with the same
inputs. Needs no more than the environment.
"""

from __future__ import annotations

import contextlib
import io
import time
from collections.abc import Callable
from typing import Any

import comparison
import onnx_native
import torch
from models import torchvision_kernels
from small_sizes import IMAGE, TEXT

torchvision_kernels.load_torchvision_kernels()
import transformers as hf  # noqa: E402
from torch.utils import _pytree as pytree  # noqa: E402
from transformers.exporters.exporter_onnx import OnnxConfig, OnnxExporter  # noqa: E402

PAIR: dict[str, Any] = {"d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 2, "num_heads": 4}
GPT: dict[str, Any] = {"n_embd": 32, "n_layer": 2, "n_head": 4, "vocab_size": 99}
GROUPS = TEXT | {"num_key_value_heads": 2}
# The model, and the names of its inputs with their dynamic dimensions.
WORDS = {name: {0: "batch", 1: "sequence"} for name in ("input_ids", "attention_mask")}
PICTURES = {"pixel_values": {0: "batch"}}
TRANSLATED = WORDS | {"decoder_input_ids": {0: "batch", 1: "tokens"}}
MODELS: dict[str, tuple[Callable[[], Any], dict[str, Any]]] = {
    "BERT": (lambda: hf.BertModel(hf.BertConfig(**TEXT)), WORDS),
    "DeBERTa": (lambda: hf.DebertaV2Model(hf.DebertaV2Config(**TEXT)), WORDS),
    "GPT-2": (lambda: hf.GPT2LMHeadModel(hf.GPT2Config(**GPT)), WORDS),
    "Llama": (lambda: hf.LlamaForCausalLM(hf.LlamaConfig(**GROUPS)), WORDS),
    "Qwen3": (lambda: hf.Qwen3ForCausalLM(hf.Qwen3Config(**GROUPS, head_dim=8)), WORDS),
    "T5": (lambda: hf.T5ForConditionalGeneration(hf.T5Config(**PAIR, vocab_size=99)), TRANSLATED),
    "ViT": (lambda: hf.ViTModel(hf.ViTConfig(**IMAGE)), PICTURES),
}


def inputs(names: dict[str, Any], batch: int, length: int) -> dict[str, torch.Tensor]:
    found = {}
    for name in names:
        if name == "pixel_values":
            found[name] = torch.rand(batch, 3, 32, 32)
        elif name == "attention_mask":
            found[name] = torch.ones(batch, length, dtype=torch.int64)
        else:
            found[name] = torch.randint(1, 99, (batch, length))
    return found


class Clock:
    """The seconds of some functions while the block runs."""

    def __init__(self) -> None:
        self.seconds = {"torch.export": 0.0, "torch.onnx": 0.0}

    def of(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*args: Any, **kwargs: Any) -> Any:
            begin = time.perf_counter()
            try:
                return function(*args, **kwargs)
            finally:
                self.seconds[name] += time.perf_counter() - begin

        return timed

    @contextlib.contextmanager
    def running(self) -> Any:
        export, onnx_export = torch.export.export, torch.onnx.export
        torch.export.export = self.of("torch.export", export)
        torch.onnx.export = self.of("torch.onnx", onnx_export)
        try:
            yield
        finally:
            torch.export.export, torch.onnx.export = export, onnx_export


def tensors(results: Any) -> list[torch.Tensor]:
    return [each for each in pytree.tree_leaves(results) if isinstance(each, torch.Tensor)]


def by_exporter(model: Any, names: dict[str, Any], config: OnnxConfig) -> str:
    clock = Clock()
    begin = time.perf_counter()
    try:
        with clock.running(), contextlib.redirect_stdout(io.StringIO()):
            exported = OnnxExporter().export(model, inputs(names, 2, 6), config=config)
        whole = time.perf_counter() - begin
        for example in examples(names):
            results = [tensors(each(**example).to_tuple()) for each in (exported, model)]
            torch.testing.assert_close(*results, rtol=1e-3, atol=1e-4)
    except Exception as error:
        return f"refused or wrong: {short(error)}"
    parts = ", ".join(f"{name} {seconds:.2f}" for name, seconds in clock.seconds.items())
    return f"right, {whole:.2f} s ({parts})"


def directly(model: Any, names: dict[str, Any]) -> str:
    begin = time.perf_counter()
    try:
        program: Any = torch.onnx.export(
            model,
            (),
            kwargs=inputs(names, 2, 6),
            dynamic_shapes=names,
            dynamo=True,
            verbose=False,
        )
        seconds = time.perf_counter() - begin
        for example in examples(names):
            file = program.model_proto.SerializeToString()
            comparison.assert_same(model, (), file, example)
    except Exception as error:
        return f"refused or wrong: {short(error)}"
    return f"right, {seconds:.2f} s"


def examples(names: dict[str, Any]) -> list[dict[str, torch.Tensor]]:
    return [inputs(names, 2, 6), inputs(names, 3, 9)]


def short(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"


def main() -> None:
    comparison.start()
    model = MODELS["BERT"][0]().eval()
    for exporter in (onnx_native.disabled, contextlib.nullcontext):  # the one-time work
        with exporter():
            by_exporter(model, WORDS, OnnxConfig())
    for name, (make, names) in comparison.chosen(MODELS):
        model = make().eval()
        marks = {each: dict.fromkeys(axes, torch.export.Dim.AUTO) for each, axes in names.items()}
        for config in (OnnxConfig(dynamic=True), OnnxConfig(dynamic_shapes=marks)):
            title = f"{name}, {'dynamic=True' if config.dynamic else 'dynamic_shapes'}"
            with onnx_native.disabled():
                print(f"{title} | PyTorch: {by_exporter(model, names, config)}", flush=True)
            print(f"{title} | {by_exporter(model, names, config)}", flush=True)
        print(f"{name}, directly | {directly(model, names)}", flush=True)


if __name__ == "__main__":
    main()
