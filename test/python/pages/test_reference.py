"""Every public name is documented: in the Python package, and in the C++ headers."""

from __future__ import annotations

import ast
import inspect
import pathlib
from typing import Any

import headers
import onnx_native
import pytest

# Members that PyTorch's ONNXProgram or Python document.
OF_OTHERS = {"exported_program", "model", "release", "optimize", "to_dataframe"}
BARE = """\
// What it is.
#pragma once

namespace a {

// Has a comment.
int known();

int bare();

class Bare {
 public:
  int member();

 private:
  int hidden_;
};

}  // namespace a
"""
NAMES = [name for name in onnx_native.__all__ if name != "__version__"]


def parameters(function: Any) -> list[str]:
    names = list(inspect.signature(function).parameters)
    return [name for name in names if name not in ("self", "args", "kwargs", "_")]


@pytest.mark.parametrize("name", NAMES)
def test_a_public_name_has_a_docstring(name: str) -> None:
    documented = getattr(onnx_native, name)
    text = inspect.getdoc(documented) or ""
    assert text[:1].isupper()
    if not inspect.isclass(documented):
        # One parameter needs no list: the sentence is about it.
        many = parameters(documented)
        if len(many) > 1 or "Args:" in text:
            assert [each for each in many if f"{each}: " not in text] == []
        return
    own = {key: value for key, value in vars(documented).items() if not key.startswith("_")}
    for key, value in own.items():
        if callable(value) or isinstance(value, property):
            assert inspect.getdoc(value) or key in OF_OTHERS or f"{key}: " in text, key


def test_the_stub_has_the_text_of_the_error() -> None:
    stub = pathlib.Path(onnx_native.__file__).with_name("_C.pyi")
    tree = ast.parse(stub.read_text(encoding="utf-8"))
    classes = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
    text = ast.get_docstring(classes["ExportError"])
    assert text == inspect.getdoc(onnx_native.ExportError)


def test_every_declaration_of_the_headers_has_a_comment() -> None:
    declared = sum(len(headers.parts(header)[1]) for header in headers.public_headers())
    assert declared > 60
    assert headers.undocumented() == []


def test_declarations_without_a_comment_are_found(tmp_path: pathlib.Path) -> None:
    """A class whose members have no comment, and a function."""
    header = tmp_path / "bare.h"
    header.write_text(BARE)
    lead, found = headers.parts(str(header))
    assert lead == [" What it is."]
    assert [(each.name, each.is_documented) for each in found] == [
        ("known", True), ("bare", False), ("Bare", False),
    ]  # fmt: skip
    assert [member.name for member in found[2].members()] == ["member"]
