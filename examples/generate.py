"""Generates tokens with an exported decoder in ONNX Runtime.

    python examples/generate.py                   exports a small Llama, compares it with eager
    python examples/generate.py FOLDER 5,6,7 8,9  a folder that export_decoder wrote

Prompts are token identifiers; shorter ones are padded on the left. The keys, values and states stay
in ONNX Runtime: IO binding gives the outputs of a step to the next one without copies. With
GroupQueryAttention (target="onnxruntime-cpu") a step writes the new keys and values into the
buffers of the past.
"""

import argparse
import json
import pathlib
import sys
import tempfile
import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
import onnxruntime
from numpy.typing import NDArray

ROOT = pathlib.Path(__file__).resolve().parent.parent
Array = NDArray[Any]
TYPES = {"tensor(float)": np.float32, "tensor(float16)": np.float16, "tensor(int64)": np.int64}


def left_padded(prompts: list[list[int]], pad: int = 0) -> tuple[Array, Array]:
    """Returns the identifiers of prompts, padded on the left, and their mask."""
    length = max(map(len, prompts))
    ids = np.full((len(prompts), length), pad, np.int64)
    mask = np.zeros_like(ids)
    for row, prompt in enumerate(prompts):
        ids[row, length - len(prompt) :] = prompt
        mask[row, length - len(prompt) :] = 1
    return ids, mask


class Decoder:
    """A decoder in ONNX Runtime, with the encoder that belongs to it if there is one."""

    def __init__(
        self, folder: pathlib.Path | str, *, optimized: bool = True, window: int | None = None
    ) -> None:
        self.window = window
        folder = pathlib.Path(folder)
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3
        if not optimized:
            level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
            options.graph_optimization_level = level

        def session(name: str) -> onnxruntime.InferenceSession:
            return onnxruntime.InferenceSession(
                folder / name, options, providers=["CPUExecutionProvider"]
            )

        has_encoder = (folder / "encoder.onnx").exists()
        self.encoder = session("encoder.onnx") if has_encoder else None
        self.session = session("decoder.onnx" if has_encoder else "model.onnx")
        self.inputs = {each.name: each for each in self.session.get_inputs()}
        self.outputs = [each.name for each in self.session.get_outputs()]
        # Whether there are keys and values, or states alone.
        lengths = {"past_sequence_length", "window_cache_length"}
        self.grows = any(lengths & {*map(str, each.shape)} for each in self.inputs.values())
        config = folder / "genai_config.json"
        search = json.loads(config.read_text())["search"] if config.exists() else {}
        self.shares_buffers = search.get("past_present_share_buffer", False)

    def encode(self, source: Mapping[str, Array]) -> dict[str, onnxruntime.OrtValue]:
        """Runs the encoder; returns what the decoder takes of it, the same in each step."""
        assert self.encoder is not None
        binding = self.encoder.io_binding()
        for name, value in source.items():
            binding.bind_cpu_input(name, value)
        names = [each.name for each in self.encoder.get_outputs()]
        for name in names:
            binding.bind_output(name)
        self.encoder.run_with_iobinding(binding)
        results = {
            name.replace("present", "past"): value
            for name, value in zip(names, binding.get_outputs(), strict=True)
            if name.startswith("present")
        }
        if "encoder_attention_mask" in self.inputs:
            mask = onnxruntime.OrtValue.ortvalue_from_numpy(source["attention_mask"])
            results["encoder_attention_mask"] = mask
        return results

    def empty_past(self, batch: int, length: int = 0) -> dict[str, onnxruntime.OrtValue]:
        """Returns the keys, values and states before the first step: empty, or zeros.

        If past and present are one buffer, it has room for `length` tokens, or for `window` in
        layers that keep a window alone.
        """
        room = length if self.shares_buffers else 0
        sizes = {"batch_size": batch, "past_sequence_length": room}
        sizes["window_cache_length"] = length if self.window is None else self.window
        return {
            name: onnxruntime.OrtValue.ortvalue_from_numpy(
                np.zeros([sizes.get(size, size) for size in each.shape], TYPES[each.type])
            )
            for name, each in self.inputs.items()
            if name.startswith("past_key_values.")
        }

    def feeds(self, ids: Array, mask: Array) -> dict[str, Array]:
        """Returns the inputs of a step besides the past. The mask is that of the whole texts."""
        new = ids.shape[1]
        positions = np.maximum(mask.cumsum(1) - 1, 0)[:, -new:]
        # The mask of a model of states alone is that of the new tokens.
        of_step = mask if self.grows else mask[:, -new:]
        return {"input_ids": ids, "attention_mask": of_step, "position_ids": positions}

    def step(
        self, feeds: Mapping[str, Array], kept: Mapping[str, onnxruntime.OrtValue]
    ) -> tuple[Array, dict[str, onnxruntime.OrtValue]]:
        """Runs the decoder once; returns the logits, and the keys and values for the next step."""
        binding = self.session.io_binding()
        for name, value in feeds.items():
            if name in self.inputs:
                binding.bind_cpu_input(name, np.ascontiguousarray(value))
        for name, kept_value in kept.items():
            binding.bind_ortvalue_input(name, kept_value)
        for name in self.outputs:
            buffer = kept.get(name.replace("present.", "past_key_values."))
            if self.shares_buffers and buffer is not None:
                binding.bind_ortvalue_output(name, buffer)
            else:
                binding.bind_output(name)
        self.session.run_with_iobinding(binding)
        results = dict(zip(self.outputs, binding.get_outputs(), strict=True))
        logits = results.pop("logits").numpy()
        if self.shares_buffers:  # they stay what holds the memory
            past = [name for name in kept if name.startswith("past_key_values.")]
            return logits, {name: kept[name] for name in past}
        present = {
            name.replace("present.", "past_key_values."): value for name, value in results.items()
        }
        return logits, present

    def generate(
        self,
        ids: Array,
        mask: Array,
        steps: int,
        *,
        source: Mapping[str, Array] | None = None,
        end: int | None = None,
    ) -> tuple[Array, Array]:
        """Appends the most likely tokens to prompts.

        Args:
            ids: The prompts, `[batch, length]`, padded on the left.
            mask: 0 where the prompts are padded.
            steps: The number of tokens to generate.
            source: The inputs of the encoder.
            end: The token that ends a text; the text is filled up with it.

        Returns:
            The new tokens, `[batch, steps]`, and the logits that they maximize.
        """
        past = self.empty_past(len(ids), ids.shape[1] + steps)
        encoded = self.encode(source) if source is not None else {}
        tokens: list[Array] = []
        scores: list[Array] = []
        ended = np.zeros(len(ids), bool)
        if self.inputs["input_ids"].shape[1] == 1:  # it takes one token at a time
            for end_of in range(1, ids.shape[1]):
                feeds = self.feeds(ids[:, end_of - 1 : end_of], mask[:, :end_of])
                _, past = self.step(feeds, past)
            ids = ids[:, -1:]
        while len(tokens) < steps and not ended.all():
            logits, past = self.step(self.feeds(ids, mask), {**past, **encoded})
            scores.append(logits[:, -1])
            ids = scores[-1].argmax(-1)[:, None]
            if end is not None:
                ids[ended] = end
                ended |= ids[:, 0] == end
            tokens.append(ids)
            mask = np.concatenate([mask, np.ones_like(ids)], 1)
        return np.concatenate(tokens, 1), np.stack(scores, 1)


def demo(steps: int) -> None:
    """Exports a small Llama with random weights, and compares its tokens with eager's."""
    sys.path[:0] = [str(ROOT / "build" / "python"), str(ROOT / "test" / "python")]
    warnings.filterwarnings("ignore")
    import onnx_native
    import torch
    from models.torchvision_kernels import load_torchvision_kernels

    load_torchvision_kernels()  # transformers imports torchvision
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=1000,
        hidden_size=256,
        intermediate_size=688,
        num_hidden_layers=4,
        num_attention_heads=8,
        num_key_value_heads=2,
    )
    model: Any = LlamaForCausalLM(config).eval()
    ids, mask = left_padded([[5, 6, 7, 8, 9], [10, 11], [12, 13, 14]])
    with tempfile.TemporaryDirectory() as folder:
        onnx_native.export_decoder(model, folder, opset_version=23)
        tokens, _ = Decoder(folder).generate(ids, mask, steps)
    expected = model.generate(
        torch.from_numpy(ids),
        attention_mask=torch.from_numpy(mask),
        do_sample=False,
        max_new_tokens=steps,
        eos_token_id=None,
        pad_token_id=0,
    )[:, ids.shape[1] :]
    print(tokens)
    same = int((tokens == expected.numpy()).sum())
    print(f"tokens equal to eager PyTorch's: {same} of {tokens.size}")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", nargs="?", help="a folder that export_decoder wrote")
    parser.add_argument("prompts", nargs="*", help="token identifiers with commas")
    parser.add_argument("--steps", type=int, default=64, help="tokens to generate (default 64)")
    parser.add_argument("--end", type=int, help="the token that ends a text")
    arguments = parser.parse_args()
    if arguments.folder is None:
        demo(arguments.steps)
        return
    if not arguments.prompts:
        parser.error("give at least one prompt")
    prompts = [[int(token) for token in prompt.split(",")] for prompt in arguments.prompts]
    ids, mask = left_padded(prompts)
    tokens, _ = Decoder(arguments.folder).generate(ids, mask, arguments.steps, end=arguments.end)
    for row in tokens:
        print(",".join(map(str, row)))


if __name__ == "__main__":
    main()
