"""A hook of mkdocs: the reference of the Python package and of the C++ headers.

mkdocstrings reads the docstrings from the source, without importing the package.
"""

from __future__ import annotations

import ast
import pathlib
import re
from typing import Any

import headers
from mkdocs.structure.files import File, Files

PACKAGE = pathlib.Path(__file__).resolve().parent.parent / "torch_ext" / "onnx_native"
PATH = re.compile(r"docs/([\w-]+)\.md")
# Where the names of the package stand on its page.
TOPICS = {
    "Exporting": ["options", "ONNXProgram", "ExportError", "compare"],
    "On and off": ["library_path", "enable", "disable", "disabled", "is_enabled", "run"],
    "Operators": ["lowering", "remove_lowering", "keep", "fallbacks"],
    "Weights": ["WeightQuantization", "save_adapter"],
    "Several models": ["Part", "export_many", "save_many"],
    "Decoders": ["export_decoder", "ExportedDecoder"],
    "The package": ["cmake_prefix_path", "__version__"],
}


def public_names() -> list[str]:
    """Returns `__all__` of the package."""
    for node in ast.parse((PACKAGE / "__init__.py").read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return ast.literal_eval(node.value)
    raise ValueError("the package has no __all__")


def python_page() -> str:
    shown = [name for names in TOPICS.values() for name in names]
    assert sorted(shown) == sorted(public_names()), set(shown) ^ set(public_names())
    lines = ["# Python package", "", "[`torch.onnx.export`](../arguments.md) is PyTorch's own."]
    for topic, names in TOPICS.items():
        lines += ["", f"## {topic}", *(f"\n::: onnx_native.{name}" for name in names)]
    return "\n".join(lines) + "\n"


def on_files(files: Files, config: Any) -> Files:
    files.append(File.generated(config, "reference/python.md", content=python_page()))
    files.append(File.generated(config, "reference/cpp.md", content=headers.page()))
    return files


def on_page_content(html: str, page: Any, config: Any, files: Files) -> str:
    if not page.file.src_uri.startswith("reference/"):
        return html
    # Docstrings announce a code block by two colons, and name pages by their paths.
    return PATH.sub(r'<a href="../\1.html">\1</a>', html.replace("::</p>", ":</p>"))
