"""The stub of the extension module says what the module has."""

from __future__ import annotations

import ast
import pathlib
import re
from collections.abc import Iterator
from typing import Any, get_args

import onnx_native
import pytest
from onnx_native import _C, _options

STUB = pathlib.Path(onnx_native.__file__).parent / "_C.pyi"
FUNCTION = re.compile(r"\w+\((.*)\) -> ")
# Fields that only instances of an exception have, and what pybind11 adds to its classes.
OF_INSTANCES = {"ExportError"}
OF_PYBIND11 = {"_pybind11_conduit_v1_", "name", "value"}


def stubbed(body: list[ast.stmt], prefix: str = "") -> Iterator[tuple[str, ast.stmt]]:
    """Yields the public names of a stub, those of classes with the class, and where they are."""
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield prefix + node.name, node
        if isinstance(node, ast.Assign | ast.AnnAssign):
            target = node.targets[0] if isinstance(node, ast.Assign) else node.target
            assert isinstance(target, ast.Name)
            yield prefix + target.id, node
        if isinstance(node, ast.ClassDef) and node.name not in OF_INSTANCES:
            yield from stubbed(node.body, f"{node.name}.")


def actual() -> Iterator[tuple[str, Any]]:
    """Yields the public names of the module, and what they stand for."""
    for name, value in vars(_C).items():
        if name.startswith("_"):
            continue
        yield name, value
        if isinstance(value, type) and name not in OF_INSTANCES:
            is_enum = hasattr(value, "__members__")
            for member, inside in vars(value).items():
                if member in OF_PYBIND11 and (is_enum or member.startswith("_")):
                    continue
                if member.startswith("_") and f"{name}.{member}" not in STUBBED:
                    continue
                yield f"{name}.{member}", inside


STUBBED = dict(stubbed(ast.parse(STUB.read_text()).body))
ACTUAL = dict(actual())


def test_the_names_are_those_of_the_module() -> None:
    public = {name for name in STUBBED if not name.startswith("_")}
    assert public - ACTUAL.keys() == set(), "the module lacks these"
    assert ACTUAL.keys() - public == set(), "the stub lacks these"


def parameters(node: ast.FunctionDef) -> list[tuple[str, bool]]:
    """The parameters of a function in the stub: name, and whether it has a default."""
    args = node.args
    positional = [each.arg for each in args.args]
    first = len(positional) - len(args.defaults)
    found = [(name, i >= first) for i, name in enumerate(positional)]
    found += [("*args", False)] * (args.vararg is not None)
    found += [("*", False)] * (args.vararg is None and bool(args.kwonlyargs))
    found += [
        (each.arg, default is not None)
        for each, default in zip(args.kwonlyargs, args.kw_defaults, strict=True)
    ]
    return found + [("**kwargs", False)] * (args.kwarg is not None)


def documented(text: str) -> list[tuple[str, bool]]:
    """The parameters that pybind11 writes into a docstring."""
    found = FUNCTION.match(text)
    assert found is not None, text
    parts, depth = [""], 0
    for letter in found[1]:
        depth += (letter in "[{(") - (letter in "]})")
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    names = [part.strip() for part in parts if part.strip() not in ("", "/")]
    return [(re.split(r"[:=\s]", name)[0], "=" in name) for name in names]


@pytest.mark.parametrize(
    "name", [name for name, node in STUBBED.items() if isinstance(node, ast.FunctionDef)]
)
def test_parameters_are_those_of_the_module(name: str) -> None:
    node, value = STUBBED[name], ACTUAL[name]
    assert isinstance(node, ast.FunctionDef)
    if isinstance(value, property):
        assert any(isinstance(each, ast.Name) and each.id == "property"
                   for each in node.decorator_list)  # fmt: skip
        assert parameters(node) == [("self", False)]
    elif name != "Symbol.__eq__":  # Python's own operator
        function = value.__func__ if isinstance(value, staticmethod) else value
        assert parameters(node) == documented(function.__doc__)


def test_enumerators_are_enumerators() -> None:
    for name, node in STUBBED.items():
        if isinstance(node, ast.ClassDef) and any(
            ast.unparse(b) == "enum.Enum" for b in node.bases
        ):
            members = {x.split(".")[1] for x in STUBBED if x.startswith(f"{name}.")}
            assert set(ACTUAL[name].__members__) == members


@pytest.mark.parametrize(
    ("option", "words"),
    [
        ("metadata", _options.Metadata),
        ("target", _options.Target),
        ("weights", _options.WeightLayout),
        ("nan", _options.NanMode),
    ],
)
def test_words_of_options_are_those_of_the_module(option: str, words: Any) -> None:
    wrong: dict[str, Any] = {option: "none of them"}
    with pytest.raises(_C.ExportError) as raised:
        _C.Program("no such file", opset=20, **wrong)
    known = str(raised.value).partition(": choose one of ")[2]
    assert tuple(re.findall(r"'([\w-]+)'", known)) == get_args(words)
