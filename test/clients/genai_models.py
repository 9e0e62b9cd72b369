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
GPT = {"n_embd": 32, "n_layer": 2, "n_head": 4}
EXPERTS = {"num_local_experts": 4}
# What each configuration has besides the sizes. The name is that of the classes.
MODELS: dict[str, dict[str, Any]] = {
    "Llama": {},
    "Qwen2": {},
    "Qwen3": {},
    "Gemma2": WINDOW,
    "Gemma3": WINDOW,
    "Phi3": {},
    "Mistral": WINDOW,
    "Mixtral": EXPERTS,
    "SmolLM3": {},
    "Olmo2": {},
    "Cohere": {},
    "Cohere2": WINDOW,
    "Ernie4_5": {},
    "Exaone4": WINDOW,
    "GPT2": {**GPT, "n_positions": 128},
    "GPTJ": {**GPT, "rotary_dim": 4},
    "GPTNeoX": {},
    "Gemma": {},
    "Glm4": {},
    "GptOss": WINDOW | EXPERTS,
    "Granite": {},
    "Helium": {},
    "Ministral": WINDOW,
    "ModernBertDecoder": {"local_attention": 8},
    "Nemotron": {},
    "OPT": {"word_embed_proj_dim": 32, "ffn_dim": 40},
    "Olmo": {},
    "Olmo3": WINDOW,
    "Phi": {},
    "Phimoe": EXPERTS,
    "Qwen3Moe": {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 24},
    "StableLm": {},
    "Starcoder2": WINDOW,
}
WHISPER: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "d_model": 32,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 40,
    "decoder_ffn_dim": 40,
    "num_mel_bins": 8,
    "max_source_positions": 1500,  # genai takes no others
    "max_target_positions": 128,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": 0,
    "decoder_start_token_id": 1,
}
TEXT = "the model that runs is the model that was exported"
Rows = list[list[int]]


def make(name: str) -> Any:
    """Returns a model with weights large enough that the tokens vary."""
    torch.manual_seed(0)
    if name == "Whisper":
        config = transformers.WhisperConfig(**WHISPER)
        model = transformers.WhisperForConditionalGeneration(config)
    else:
        text = "TextConfig" if name == "Gemma3" else "Config"
        kind = "LMHeadModel" if name == "GPT2" else "ForCausalLM"
        config = getattr(transformers, name + text)(**SIZES, **MODELS[name])
        model = getattr(transformers, name + kind)(config)
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
    """Exports an architecture for a target, and compares its tokens."""
    eager = Eager(make(name))
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
    return told(f"{name}, {target}", by, seconds, found)


def told(title: str, by: str, seconds: float, found: dict[str, list[bool]]) -> tuple[int, int]:
    """Prints a line; returns how many rows of tokens are right, and how many there are."""
    right, total = sum(map(sum, found.values())), sum(map(len, found.values()))
    wrong = [f"{key}: {sum(rows)} of {len(rows)}" for key, rows in found.items() if not all(rows)]
    line = f"{title}: {right} of {total} ({by}, {seconds:.2f} s)"
    print(line, *wrong, sep="; ", flush=True)
    return right, total


def run_whisper() -> tuple[int, int]:
    """Exports Whisper, and compares the tokens of one sound and of three."""
    model, found = make("Whisper"), {}
    with tempfile.TemporaryDirectory() as folder:
        begin = time.perf_counter()
        exported = onnx_native.export_decoder(model, folder)
        seconds = time.perf_counter() - begin
        by = exported.programs["decoder.onnx"].export_report["capture"]["by"]
        tokenizer().save_pretrained(folder)
        runtime = Genai(pathlib.Path(folder))
        for batch in (1, 3):
            sounds = torch.randn(batch, 8, 3000)
            start = [[1, 5]] * batch
            generator = runtime.generator(batch)
            generator.set_model_input("audio_features", sounds.numpy())
            # Whisper's own generate() cuts sounds into pieces.
            expected = transformers.GenerationMixin.generate(
                model,
                input_features=sounds,
                decoder_input_ids=torch.tensor(start),
                do_sample=False,
                max_new_tokens=NEW,
            )
            rows = zip(turn(generator, start), expected.tolist(), strict=True)
            found[f"batch {batch}"] = [row == wanted for row, wanted in rows]
    return told("Whisper", by, seconds, found)


def main() -> None:
    comparison.start()
    results = [
        run(name, target)
        for name, _ in comparison.chosen(MODELS)
        for target in ("onnx", "onnxruntime-cpu")
    ]
    results += [run_whisper() for _ in comparison.chosen({"Whisper": WHISPER})]
    print("all:", sum(right for right, _ in results), "of", sum(total for _, total in results))


if __name__ == "__main__":
    main()
