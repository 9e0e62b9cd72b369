"""The code on the pages of the documentation runs."""

from __future__ import annotations

import pathlib
import re
import shlex
import subprocess
from collections.abc import Callable, Iterator
from typing import Any

import onnx_native
import pytest
import torch
from devices import placing
from models.torchvision_kernels import load_torchvision_kernels
from onnx_native import _options
from pages import snippets

# Pages whose code other tests run, step by step.
ELSEWHERE = {
    "docs/custom-ops.md": "lowerings/test_custom_ops.py",
    "docs/functions.md": "program/test_functions.py",
    "docs/inputs.md": "request/test_inputs.py",
    "docs/state.md": "program/test_state.py",
}
PAGES = [page for page in snippets.pages() if snippets.blocks(page) and page not in ELSEWHERE]


class Small(torch.nn.Module):
    """A reader's model."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = torch.nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.fc(x))


def small() -> dict[str, Any]:
    x = torch.randn(3, 4)
    given = {"model": Small().eval(), "x": x, "args": (x,), "shapes": ({0: "batch"},)}
    return {"torch": torch, "onnx_native": onnx_native, **given}


def decoder() -> dict[str, Any]:
    load_torchvision_kernels()
    from transformers import LlamaConfig, LlamaForCausalLM

    sizes = {"vocab_size": 32, "hidden_size": 16, "intermediate_size": 32}
    counts = {"num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 2}
    return {**small(), "model": LlamaForCausalLM(LlamaConfig(**sizes, **counts)).eval()}


class Language(torch.nn.Module):
    """A reader's language model, or what the pages name of it."""

    def __init__(self) -> None:
        super().__init__()
        self.mlp = torch.nn.ModuleList([torch.nn.ModuleDict({"gate": torch.nn.Linear(4, 4)})])
        self.lm_head = torch.nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.mlp:
            x = torch.relu(layer["gate"](x))
        return self.lm_head(x)


def language() -> dict[str, Any]:
    return {**small(), "model": Language().eval()}


def with_images() -> dict[str, Any]:
    from models import multimodal

    model, _ = multimodal.make("Llava")

    def processor(*, text: str, images: int, return_tensors: str) -> dict[str, torch.Tensor]:
        assert text
        assert return_tensors == "pt"
        return multimodal.pixels(images)[0]

    two_examples = [("an image", 1), ("two images", 2)]
    return {**small(), "model": model, "processor": processor, "two_examples": two_examples}


def on_a_device() -> dict[str, Any]:
    placing.load()
    return {**small(), "device": placing.DEVICES[-1]}


def quantized() -> dict[str, Any]:
    model = torch.ao.quantization.quantize_dynamic(Small().eval(), {torch.nn.Linear})
    return {**language(), "quantized_model": model}


# What a page takes for granted: by default a model with its arguments.
GIVEN: dict[str, Callable[[], dict[str, Any]]] = {
    "docs/decoders.md": decoder,
    "docs/vision-language.md": with_images,
    "docs/devices.md": on_a_device,
    "docs/large-models.md": decoder,
    "docs/precision.md": language,
    "docs/quantization.md": quantized,
}


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    """Undoes what a page does to the process."""
    yield
    _options.set_legacy(None)
    for page in PAGES:
        for block in snippets.blocks(page):
            for op in re.findall(r'onnx_native\.(?:lowering|keep)\("([^"]+)"', block.code):
                onnx_native.remove_lowering(op)


@pytest.mark.parametrize("page", PAGES)
@pytest.mark.filterwarnings("ignore")
def test_code_of_a_page(page: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    given = GIVEN.get(page, small)()
    assert len(list(snippets.steps(page, **given))) == len(snippets.blocks(page))


def test_the_other_pages_have_their_own_tests() -> None:
    folder = pathlib.Path(__file__).parents[1]
    for page, test in ELSEWHERE.items():
        assert f'snippets.steps("{page}"' in (folder / test).read_text(encoding="utf-8")


def test_the_errors_page_has_every_kind() -> None:
    source = (snippets.ROOT / "csrc/base/error.cpp").read_text(encoding="utf-8")
    kinds = re.findall(r'case ErrorKind::\w+:\s+return "([\w ]+)";', source)
    assert len(kinds) == 6
    text = (snippets.ROOT / "docs/errors.md").read_text(encoding="utf-8")
    for kind in kinds:
        assert f"\n## {kind}\n" in text
        section = text.split(f"\n## {kind}\n")[1].split("\n## ")[0]
        assert f"ExportError [{kind}]: " in section or kind == "io"


SHELL = [
    (page, line)
    for page in snippets.pages()
    for block in snippets.blocks(page, "")
    for line in block.code.splitlines()
    if line.startswith("onnx-native ")
]


class Counting(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, tokens: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
        self.calls.add_(1)
        return (tokens * weights).sum(-1) + self.calls


class Scaled(torch.nn.Module):
    def forward(self, x: torch.Tensor, n: int = 2) -> torch.Tensor:
        return x * n


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """A folder with the files that the commands of the pages export."""
    made = tmp_path_factory.mktemp("files")
    example = (torch.ones(2, 3), torch.ones(2, 3))
    torch.export.save(torch.export.export(Counting(), example), made / "model.pt2")
    torch.jit.save(torch.jit.script(Scaled()), str(made / "scripted.pt"))
    return made


def test_there_are_commands() -> None:
    assert len(SHELL) >= 9


@pytest.mark.parametrize(("page", "line"), SHELL)
def test_command_of_a_page(
    page: str, line: str, folder: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    (folder / "model.onnx").unlink(missing_ok=True)
    words = shlex.split(line, comments=True)
    assert onnx_native._C.command_line(words[1:]) == 0
    assert (folder / "model.onnx").exists() == ("-o" in words)


PROGRAMS = [
    pytest.param(block.code, id=page)
    for page in snippets.pages()
    for block in snippets.blocks(page, "cpp")
    if block.code.startswith("#include")
]


@pytest.mark.parametrize("code", PROGRAMS)
def test_cpp_of_a_page_compiles(code: str) -> None:
    """Blocks of docs/cpp.md are parts of the examples: test_cpp_package compares them."""
    headers = pathlib.Path(onnx_native.__file__).parents[2] / "public"
    command = ["g++", "-std=c++20", "-fsyntax-only", "-x", "c++", f"-I{headers}", "-"]
    subprocess.run(command, input=code, text=True, check=True)


def test_lowerings_of_a_page_compile() -> None:
    """A block that begins otherwise names functions of one file."""
    found = [block.code for block in snippets.blocks("csrc/ops/README.md", "cpp")]
    lowerings = [code for code in found if code.startswith("ops.")]
    assert len(lowerings) >= 3
    code = '#include "ops/engine/op_table.h"\nnamespace onnx_native::ops {\n'
    for number, each in enumerate(lowerings):
        code += f"void define_{number}(OpTable& ops) {{\n{each}}}\n"
    torch_headers = pathlib.Path(torch.__file__).parent / "include"
    folders = [f"-I{snippets.ROOT / 'csrc'}", f"-I{torch_headers}"]
    command = ["g++", "-std=c++20", "-fsyntax-only", "-DFMT_HEADER_ONLY", "-x", "c++", *folders]
    subprocess.run([*command, "-"], input=code + "}\n", text=True, check=True)
