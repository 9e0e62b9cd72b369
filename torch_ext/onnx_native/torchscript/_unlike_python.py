"""What TorchScript computes otherwise than Python, or not at all.

A compiled module stands for the user's, which Python runs. The example takes one way through its
branches; on the other ways, TorchScript must agree with Python too.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Any

import torch

# What functions of torch.jit.unused and torch.jit.ignore(drop=True) raise in TorchScript.
_UNUSED = ("Cannot call @unused methods", "annotated to be ignored and cannot be run")
_SPACES = " \n\t\f\v"  # what strip() removes in TorchScript
_MESSAGES = ("prim::Print", "prim::RaiseException", "aten::warn")
# What makes text of any value.
_OF_ANYTHING = ("aten::str", "aten::format", "aten::percentFormat")
# The functions of text that agree with Python's for any text.
_OF_ANY_TEXT = frozenset(
    "Float Int __is__ __isnot__ add device eq ge get_autocast_dtype gt join le lt ne".split()
)
# Those that agree for plain text: TorchScript counts bytes, and knows fewer spaces.
_OF_PLAIN_TEXT = frozenset(
    "__contains__ __getitem__ bin capitalize center chr expandtabs hex isalnum isalpha isdecimal "
    "isdigit islower isnumeric isprintable isspace istitle isupper len list ljust lower lstrip oct "
    "ord rjust rstrip slice split strip swapcase title upper zfill".split()
)
# Those that agree if they look for some text, in all of another one.
_SEARCHES = frozenset("count endswith find index replace rfind rindex startswith".split())


def check(source: ast.AST) -> None:
    """Looks at the source of a function for text that TorchScript computes while it compiles.

    Raises:
        ValueError: The text may differ from Python's, or TorchScript never ends.
    """
    for node in _outside_of_messages(source):
        text = node.value if isinstance(node, ast.Constant) else None
        if isinstance(text, str) and not _is_plain(text):
            raise ValueError("TorchScript counts the bytes of text, not its characters")
        if not isinstance(node, ast.Call):
            continue
        name = node.func.attr if isinstance(node.func, ast.Attribute) else ast.unparse(node.func)
        first = node.args[0] if node.args else None
        known = first.value if isinstance(first, ast.Constant) else ...
        if name in ("count", "replace", "rsplit") and known == "":
            raise ValueError(f'TorchScript does not end {name}("")')
        if name == "isidentifier" or (name == "str" and type(known) in (bool, float, type(None))):
            raise ValueError(f"{name}() of text may differ between TorchScript and Python")


def _outside_of_messages(source: ast.AST) -> Iterator[ast.AST]:
    """The nodes of a function, but for its documentation and what it says."""
    for node in ast.iter_child_nodes(source):
        is_documentation = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if isinstance(node, ast.Raise) or is_documentation:
            continue
        if isinstance(node, ast.Assert):
            yield node.test
            yield from _outside_of_messages(node.test)
            continue
        says = isinstance(node, ast.Call) and ast.unparse(node.func) in ("print", "warnings.warn")
        if not says:
            yield node
            yield from _outside_of_messages(node)


def difference(script: Any, model: torch.nn.Module) -> str | None:
    """What a script may compute otherwise than its module; None if there is nothing.

    Args:
        script: The script that was compiled from the module.
        model: The module.
    """
    for module in model.modules():
        kind = type(module)
        if kind.__call__ is not torch.nn.Module.__call__ and not _is_of_torch(kind):
            return f"TorchScript ignores the __call__ of a {kind.__name__}"
    nodes = list(_nodes(script.inlined_graph))
    is_plain = all(_is_plain(text) for node in nodes for text in _texts(node, script))
    for node in nodes:
        if node.kind() == "prim::RaiseException" and any(map(_is_unused, node.inputs())):
            return "it calls a function that torch.jit.unused or torch.jit.ignore leaves out"
        if _is_of_text(node) and not _agrees(node, is_plain=is_plain):
            name = node.kind().removeprefix("aten::")
            return f"{name}() of text may differ between TorchScript and Python"
    return None


def _is_of_torch(kind: type) -> bool:
    return kind.__module__.partition(".")[0] == "torch"


def _nodes(block: Any) -> Iterator[Any]:
    """The nodes of a graph or block and of the blocks in it."""
    for node in block.nodes():
        yield node
        for inner in node.blocks():
            yield from _nodes(inner)


def _is_unused(value: Any) -> bool:
    text = value.toIValue()
    return isinstance(text, str) and any(each in text for each in _UNUSED)


def _is_text(value: Any) -> bool:
    return value.type().kind() == "StringType"


def _texts(node: Any, script: Any) -> Iterator[Any]:
    """The texts that a node of a constant, or of an attribute, gives to others than messages."""
    if node.kind() not in ("prim::Constant", "prim::GetAttr") or not _is_text(node.output()):
        return
    if not all(use.user.kind() in _MESSAGES for use in node.output().uses()):
        yield node.output().toIValue() if node.kind() == "prim::Constant" else _read(node, script)


def _read(node: Any, script: Any) -> Any:
    """The attribute of the script that a node reads; None if that is not known."""
    if node.kind() == "prim::Param":
        return script
    if node.kind() != "prim::GetAttr":
        return None
    return getattr(_read(node.inputsAt(0).node(), script), node.s("name"), None)


def _is_plain(text: Any) -> bool:
    if text == _SPACES:
        return True
    return isinstance(text, str) and all(" " <= each <= "~" or each in "\t\n" for each in text)


def _is_of_text(node: Any) -> bool:
    """Whether a node computes with text. Containers of text are the same as in Python."""
    if not node.kind().startswith("aten::") or node.kind() in _MESSAGES:
        return False
    inputs, outputs = list(node.inputs()), list(node.outputs())
    made = [value for value in outputs if _is_text(value)]
    if made and all(use.user.kind() in _MESSAGES for use in made[0].uses()):
        return False
    if node.kind() in _OF_ANYTHING:
        return True
    if any(value.type().kind() in ("TensorType", "DictType") for value in inputs):
        return False
    is_of_list = bool(inputs) and inputs[0].type().kind() == "ListType"
    return any(map(_is_text, inputs[:1])) or (bool(made) and not is_of_list)


def _agrees(node: Any, *, is_plain: bool) -> bool:
    name, inputs = node.kind().removeprefix("aten::"), list(node.inputs())
    if name in ("str", "format"):
        pattern = inputs[0].toIValue() if name == "format" else ""
        parts = inputs[1:] if name == "format" else inputs
        kinds = {part.type().kind() for part in parts}
        is_simple = isinstance(pattern, str) and not set("{}") & set(pattern.replace("{}", ""))
        return is_simple and kinds <= {"IntType", "StringType"}
    if name in _SEARCHES:
        wanted, *bounds = (value.toIValue() for value in inputs[1:])
        in_all = bounds in ([], [0, -1], [-1]) if name != "replace" else True
        return is_plain and bool(wanted) and in_all
    return name in _OF_ANY_TEXT or (name in _OF_PLAIN_TEXT and is_plain)
