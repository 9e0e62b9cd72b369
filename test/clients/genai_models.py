"""Runs exported decoders in onnxruntime-genai, and compares their tokens with transformers'.

Each architecture is a small model with random weights, and a tokenizer of bytes. onnxruntime-genai
loads the folder that export_decoder and the tokenizer's save_pretrained wrote, for both targets. It
generates greedily from a text, from prompts of one length and of different lengths, in a second
turn, and after it went back; and it samples with a seed. Prints how many rows of tokens are right.
"""

from __future__ import annotations

import pathlib
import tempfile
import time
from typing import Any

import comparison
import numpy as np
import onnx_native
import onnxruntime_genai as genai
import torch
from models import torchvision_kernels

torchvision_kernels.load_torchvision_kernels()
import tokenizers  # noqa: E402
import transformers  # noqa: E402

VOCABULARY = 300
LENGTH = 64  # of all texts, at most
NEW = 24  # tokens of a turn
PAD = 0
SIZES: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "intermediate_size": 40,
    "max_position_embeddings": 128,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": 0,
    "tie_word_embeddings": False,  # a tied head of random weights repeats the last token
}
WINDOW = {"sliding_window": 8}
# The names of the classes, and their settings besides the sizes.
MODELS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "Llama": ("LlamaConfig", "LlamaForCausalLM", {}),
    "Qwen2.5": ("Qwen2Config", "Qwen2ForCausalLM", {}),
    "Qwen3": ("Qwen3Config", "Qwen3ForCausalLM", {}),
    "Gemma2": ("Gemma2Config", "Gemma2ForCausalLM", WINDOW),
    "Gemma3": ("Gemma3TextConfig", "Gemma3ForCausalLM", WINDOW),
    "Phi3": ("Phi3Config", "Phi3ForCausalLM", {}),
    "Mistral": ("MistralConfig", "MistralForCausalLM", WINDOW),
    "Mixtral": ("MixtralConfig", "MixtralForCausalLM", {"num_local_experts": 4}),
    "SmolLM3": ("SmolLM3Config", "SmolLM3ForCausalLM", {}),
    "OLMo2": ("Olmo2Config", "Olmo2ForCausalLM", {}),
}
TEXT = "the model that runs is the model that was exported"
Rows = list[list[int]]


def make(config: str, kind: str, settings: dict[str, Any]) -> Any:
    torch.manual_seed(0)
    model = getattr(transformers, kind)(getattr(transformers, config)(**SIZES, **settings))
    for parameter in model.parameters():
        if parameter.ndim > 1:
            torch.nn.init.normal_(parameter, std=0.2)
    return model.eval()


def tokenizer() -> Any:
    """Returns a tokenizer of bytes with a few merges."""
    made = tokenizers.Tokenizer(tokenizers.models.BPE())
    made.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = tokenizers.decoders.ByteLevel()
    special = ["<pad>", "<s>", "</s>"]
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=special,
        initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    made.train_from_iterator([TEXT], trainer)
    names = {"pad_token": special[0], "bos_token": special[1], "eos_token": special[2]}
    return transformers.GPT2TokenizerFast(tokenizer_object=made, **names)


class Genai:
    """A folder in onnxruntime-genai."""

    def __init__(self, folder: pathlib.Path) -> None:
        self._model = genai.Model(str(folder))
        self._tokenizer = genai.Tokenizer(self._model)

    def encode(self, text: str) -> list[int]:
        return self._tokenizer.encode(text).tolist()

    def generator(self, batch: int, **options: Any) -> Any:
        params = genai.GeneratorParams(self._model)
        params.set_search_options(batch_size=batch, max_length=LENGTH, **options)
        return genai.Generator(self._model, params)

    def generate(self, prompts: Rows, **options: Any) -> Rows:
        """Returns the prompts, padded on the right as genai takes them, with NEW tokens."""
        width = max(map(len, prompts))
        generator = self.generator(len(prompts), **options)
        return turn(generator, [row + [PAD] * (width - len(row)) for row in prompts])


def turn(generator: Any, prompts: Rows) -> Rows:
    """Appends tokens, generates NEW tokens or up to the end of the texts, and returns all."""
    generator.append_tokens(np.array(prompts, np.int32))
    for _ in range(NEW):
        if generator.is_done():
            break
        generator.generate_next_token()
    generator.is_done()
    return [generator.get_sequence(i).tolist() for i in range(len(prompts))]


class Eager:
    """A model in transformers."""

    def __init__(self, model: Any) -> None:
        self.model = model

    def generate(self, prompt: list[int]) -> list[int]:
        """Returns the prompt with NEW tokens, or with those before the end of the text."""
        ids = torch.tensor([prompt])
        mask = torch.ones_like(ids)
        room = min(NEW, LENGTH - len(prompt))
        settings = {"do_sample": False, "max_new_tokens": room, "pad_token_id": PAD}
        [found] = self.model.generate(ids, attention_mask=mask, **settings).tolist()
        return found[:-1] if found[-1] == self.end else found

    @property
    def end(self) -> int:
        return self.model.config.eos_token_id

    def end_by(self, prompt: list[int]) -> None:
        """Makes a token that the model generates after this prompt the end of texts."""
        new = self.generate(prompt)[len(prompt) :]
        end = next(new[i] for i in range(6, NEW) if new[i] not in new[:i])
        self.model.config.eos_token_id = self.model.generation_config.eos_token_id = end


def is_equal(
    found: list[int], width: int, expected: list[int], prompt: list[int], end: int
) -> bool:
    """Whether a row has the expected tokens after its prompt, then only what fills it up."""
    new, wanted = found[width:], expected[len(prompt) :]
    rest = new[len(wanted) :]
    return new[: len(wanted)] == wanted and set(rest) <= {PAD, end}


def drawn(*lengths: int) -> Rows:
    draws = torch.Generator().manual_seed(1)
    return [torch.randint(3, VOCABULARY, (n,), generator=draws).tolist() for n in lengths]


PROMPTS = {
    "batch 1": drawn(7),
    "batch 3": drawn(7, 7, 7),
    "different lengths": drawn(3, 7, 5),
}


def of_prompts(runtime: Genai, eager: Eager, prompts: Rows) -> list[bool]:
    found, width = runtime.generate(prompts), max(map(len, prompts))
    return [
        is_equal(row, width, eager.generate(prompt), prompt, eager.end)
        for row, prompt in zip(found, prompts, strict=True)
    ]


def of_text(runtime: Genai, eager: Eager, ids: list[int]) -> list[bool]:
    return [runtime.encode(TEXT) == ids, *of_prompts(runtime, eager, [ids])]


def of_two_turns(runtime: Genai, eager: Eager) -> list[bool]:
    """The first turn ends by the token that ends texts, which is not a part of the text."""
    [prompt], [more] = PROMPTS["batch 1"], drawn(4)
    generator = runtime.generator(1)
    [first] = turn(generator, [prompt])
    [second] = turn(generator, [more])
    return [first == eager.generate(prompt), second == eager.generate(first + more)]


def of_rewind(runtime: Genai, eager: Eager) -> list[bool]:
    """Goes back into the prompt, and generates other tokens."""
    [prompt], [more] = PROMPTS["batch 1"], drawn(4)
    generator = runtime.generator(1)
    turn(generator, [prompt])
    generator.rewind_to(4)
    [found] = turn(generator, [more])
    return [found == eager.generate(prompt[:4] + more)]


def of_sampling(runtime: Genai) -> list[bool]:
    """The same seed gives the same tokens; another one gives others."""
    options = {"do_sample": True, "top_k": 50, "top_p": 0.9, "temperature": 1.0}
    first, second, other = (
        runtime.generate(PROMPTS["batch 3"], **options, random_seed=seed) for seed in (1, 1, 2)
    )
    return [first == second != other]


def run(name: str, target: Any) -> tuple[int, int]:
    """Prints a line; returns how many rows of tokens are right, and how many there are."""
    eager = Eager(make(*MODELS[name]))
    eager.end_by(PROMPTS["batch 1"][0])
    with tempfile.TemporaryDirectory() as folder:
        begin = time.perf_counter()
        exported = onnx_native.export_decoder(eager.model, folder, target=target)
        seconds = time.perf_counter() - begin
        by = exported.programs["model.onnx"].export_report["capture"]["by"]
        texts = tokenizer()
        texts.save_pretrained(folder)
        runtime = Genai(pathlib.Path(folder))
        found = {
            "text": of_text(runtime, eager, texts.encode(TEXT)),
            **{key: of_prompts(runtime, eager, rows) for key, rows in PROMPTS.items()},
            "two turns": of_two_turns(runtime, eager),
            "rewind": of_rewind(runtime, eager),
            "sampling": of_sampling(runtime),
        }
    right, total = sum(map(sum, found.values())), sum(map(len, found.values()))
    wrong = [f"{key}: {sum(rows)} of {len(rows)}" for key, rows in found.items() if not all(rows)]
    line = f"{name}, {target}: {right} of {total} ({by}, {seconds:.2f} s)"
    print(line, *wrong, sep="; ", flush=True)
    return right, total


def main() -> None:
    comparison.start()
    results = [
        run(name, target)
        for name, _ in comparison.chosen(MODELS)
        for target in ("onnx", "onnxruntime-cpu")
    ]
    print("all:", sum(right for right, _ in results), "of", sum(total for _, total in results))


if __name__ == "__main__":
    main()
