"""A program as source text: inputs, statements, results, and export settings."""

from __future__ import annotations

import ast
import copy
import dataclasses
import itertools
import json
import linecache
import re
import sys
import types
from collections.abc import Callable, Sequence
from typing import Any

import torch

from storm import plain

SETS = 3  # sets of inputs; the first one is the example of the export

# Names that the source of a program may use.
PREAMBLE = """\
import math
import torch
import torch.nn.functional as F
from typing import Dict, List, Optional, Tuple
from storm.blocks import *
from torch import Tensor, cond, nn
from torch._higher_order_ops import associative_scan, scan, while_loop
from torch._higher_order_ops.map import map as map_
"""

_ATTRIBUTE = re.compile(r"[lb]\d+")  # layers and buffers
_counter = itertools.count()


@dataclasses.dataclass
class Input:
    """An argument of forward: a tensor, or an int input if ``dtype`` is "int".

    Attributes:
        name: Its name.
        dtype: The tensor's dtype without "torch.".
        dims: Sizes: numbers, or names of dynamic dimensions.
        low: The smallest number in it.
        high: The largest number in it.
    """

    name: str
    dtype: str
    dims: list[int | str]
    low: int = -4
    high: int = 4

    def annotation(self) -> str:
        return "int" if self.dtype == "int" else "Tensor"

    def value(self, sizes: dict[str, int], seed: int) -> Any:
        """Returns a tensor of small numbers; floats are multiples of 1/8, some of them zeros."""
        generator = torch.Generator().manual_seed(seed)
        if self.dtype == "int":
            return int(torch.randint(self.low, self.high + 1, (), generator=generator))
        shape = [sizes[dim] if isinstance(dim, str) else dim for dim in self.dims]
        dtype = getattr(torch, self.dtype)
        if dtype is torch.bool:
            return torch.randint(0, 2, shape, generator=generator).bool()
        if dtype.is_complex:
            parts = torch.randint(self.low * 8, self.high * 8 + 1, [*shape, 2], generator=generator)
            return torch.view_as_complex(parts.to(torch.float32) / 8).to(dtype)
        if dtype.is_floating_point:
            whole = torch.randint(self.low * 8, self.high * 8 + 1, shape, generator=generator)
            return (whole / 8).to(dtype)
        low = max(self.low, 0) if dtype is torch.uint8 else self.low
        return torch.randint(low, self.high + 1, shape, generator=generator).to(dtype)


@dataclasses.dataclass
class Pack:
    """Adjacent inputs that forward takes in one container.

    Attributes:
        kind: "tuple", "list" or "dict", whose keys are the inputs' names.
        names: The inputs' names.
    """

    kind: str
    names: list[str]

    def annotation(self) -> str:
        if self.kind == "tuple":
            return f"Tuple[{', '.join('Tensor' for _ in self.names)}]"
        return "List[Tensor]" if self.kind == "list" else "Dict[str, Tensor]"

    def unpacking(self, parameter: str) -> str:
        """Returns the statement that unpacks the inputs."""
        keys = [
            repr(name) if self.kind == "dict" else place for place, name in enumerate(self.names)
        ]
        values = ", ".join(f"{parameter}[{key}]" for key in keys)
        return f"{', '.join(self.names)} = {values}"

    def packed(self, values: Sequence[Any]) -> Any:
        if self.kind == "dict":
            return dict(zip(self.names, values, strict=True))
        return tuple(values) if self.kind == "tuple" else list(values)


# How forward returns its results.
FORMS: dict[str, Callable[[list[str]], str]] = {
    "tuple": lambda results: _tuple(results),
    "list": lambda results: f"[{', '.join(results)}]",
    "dict": lambda results: _dict({f"r{i}": text for i, text in enumerate(results)}),
    "nested": lambda results: _tuple([results[0], _tuple(results[1:])]),
    "mixed": lambda results: _dict(
        {"first": results[0], "rest": f"[{', '.join(results[1:])}]", "none": "None"}
    ),
}


def _tuple(texts: list[str]) -> str:
    return f"({', '.join(texts)}{',' if len(texts) == 1 else ''})"


def _dict(texts: dict[str, str]) -> str:
    return f"{{{', '.join(f'{key!r}: {text}' for key, text in texts.items())}}}"


@dataclasses.dataclass
class Program:
    """A random program and its export settings.

    Attributes:
        inputs: The tensors and numbers that forward takes.
        inits: Statements of ``__init__``.
        body: Statements of ``forward``, which may have several lines.
        results: Expressions that forward returns.
        sizes: The sizes of dynamic dimensions for each set of inputs.
        seed: Seed of inputs and weights.
        routes: The routes that can export it.
        opset: The ONNX opset.
        state: Whether buffers and inputs that it writes to become results of the model.
        functions: Whether modules become local functions.
        packs: The inputs that are passed in containers.
        keywords: The number of trailing arguments that the export passes by name.
        form: The structure of forward's result, one of FORMS.
    """

    inputs: list[Input]
    inits: list[str]
    body: list[str]
    results: list[str]
    sizes: list[dict[str, int]]
    seed: int = 0
    routes: tuple[str, ...] = ("fx", "pt2", "traced", "scripted")
    opset: int = 20
    state: bool = False
    functions: bool = False
    packs: list[Pack] = dataclasses.field(default_factory=list)
    keywords: int = 0
    form: str = "tuple"

    def parameters(self) -> list[Pack | Input]:
        """Returns forward's arguments: inputs, and containers at their first input's position."""
        by_name = {each.name: each for each in self.inputs}
        packs = [
            Pack(each.kind, [name for name in each.names if name in by_name]) for each in self.packs
        ]
        packed = {each.names[0]: each for each in packs if each.names}
        inner = {name for each in packs for name in each.names}
        return [
            packed.get(each.name, each)
            for each in self.inputs
            if each.name in packed or each.name not in inner
        ]

    def flat(self) -> list[Input]:
        """Returns the inputs in the order of the model's inputs."""
        by_name = {each.name: each for each in self.inputs}
        return [
            by_name[name]
            for each in self.parameters()
            for name in (each.names if isinstance(each, Pack) else [each.name])
        ]

    def source(self) -> str:
        """Returns the module class as a self-contained source."""
        parameters = self.parameters()
        names = [
            f"p{i}" if isinstance(each, Pack) else each.name for i, each in enumerate(parameters)
        ]
        arguments = "".join(
            f", {name}: {each.annotation()}" for name, each in zip(names, parameters, strict=True)
        )
        lines = [PREAMBLE, "", "class M(nn.Module):"]
        if self.inits:
            lines += ["    def __init__(self):", "        super().__init__()"]
            lines += [f"        {line}" for text in self.inits for line in text.splitlines()]
            lines.append("")
        lines.append(f"    def forward(self{arguments}):")
        lines += [
            f"        {each.unpacking(name)}"
            for name, each in zip(names, parameters, strict=True)
            if isinstance(each, Pack)
        ]
        lines += [f"        {line}" for text in self.body for line in text.splitlines()]
        lines.append(f"        return {FORMS[self.form](self.results)}")
        return "\n".join(lines) + "\n"

    def module(self, *, is_plain: bool = False) -> torch.nn.Module:
        """Returns a module of the class, in evaluation mode unless a statement changes that.

        With ``is_plain``, control flow operators run in plain Python and cannot be captured.

        The source is stored where `inspect` finds it, so that TorchScript can compile it.
        """
        source = self.source()
        name = f"<storm {next(_counter)}>"
        linecache.cache[name] = (len(source), None, source.splitlines(True), name)
        holder = types.ModuleType(f"storm_program_{next(_counter)}")
        sys.modules[holder.__name__] = holder  # where torch's capture looks up names
        namespace = holder.__dict__
        exec(compile(source, name, "exec"), namespace)
        if is_plain:
            namespace.update(plain.NAMES)
        torch.default_generator.manual_seed(self.seed)
        module: torch.nn.Module = namespace["M"]()
        return module.eval()

    def values(self, which: int) -> dict[str, Any]:
        """Returns the values of one set of inputs by name, in the order of the model's inputs."""
        places = {each.name: place for place, each in enumerate(self.inputs)}
        return {
            each.name: each.value(
                self.sizes[which], self.seed * 1000 + which * 100 + places[each.name]
            )
            for each in self.flat()
        }

    def arguments(self, which: int) -> tuple[Any, ...]:
        """Returns the arguments for forward."""
        return self.packed(self.values(which))

    def by_name(self, which: int) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Returns the arguments, with the last ones as keyword arguments."""
        values = self.arguments(which)
        first = max(len(values) - self.keywords, 0)
        names = [
            f"p{i}" if isinstance(each, Pack) else each.name
            for i, each in enumerate(self.parameters())
        ]
        return values[:first], dict(zip(names[first:], values[first:], strict=True))

    def packed(self, values: dict[str, Any]) -> tuple[Any, ...]:
        return tuple(
            each.packed([values[name] for name in each.names])
            if isinstance(each, Pack)
            else values[each.name]
            for each in self.parameters()
        )

    def dynamic_shapes(self) -> tuple[Any, ...] | None:
        """Returns dynamic_shapes by position; None if everything is static."""
        if not self.is_dynamic():
            return None
        return self.packed(
            {
                each.name: f"{each.name}_value"
                if each.dtype == "int"
                else {axis: dim for axis, dim in enumerate(each.dims) if isinstance(dim, str)}
                for each in self.inputs
            }
        )

    def is_dynamic(self) -> bool:
        return any(
            each.dtype == "int" or any(isinstance(dim, str) for dim in each.dims)
            for each in self.inputs
        )

    def copy(self) -> Program:
        return copy.deepcopy(self)

    def to_json(self) -> str:
        return json.dumps(dataclasses.asdict(self))

    @staticmethod
    def from_json(text: str) -> Program:
        fields = json.loads(text)
        fields["inputs"] = [Input(**each) for each in fields["inputs"]]
        fields["packs"] = [Pack(**each) for each in fields.get("packs", ())]
        fields["routes"] = tuple(fields["routes"])
        return Program(**fields)

    def operators(self) -> list[str]:
        """Returns the sorted names of the functions and methods that the statements call."""
        found = set()
        for text in [*self.inits, *self.body, *self.results]:
            for node in ast.walk(ast.parse(text)):
                if isinstance(node, ast.Call):
                    called = node.func
                    found.add(called.attr if isinstance(called, ast.Attribute) else _name(called))
                elif isinstance(node, (ast.BinOp, ast.AugAssign, ast.UnaryOp)):
                    found.add(type(node.op).__name__)
                elif isinstance(node, ast.Compare):
                    found.update(type(op).__name__ for op in node.ops)
                elif isinstance(node, ast.Subscript):
                    stored = isinstance(node.ctx, ast.Store)
                    found.add("setitem" if stored else "getitem")
                elif isinstance(node, (ast.If, ast.For, ast.While)):
                    found.add(type(node).__name__.lower())
        found -= {"", "super", "__init__", "USub", "Not"}
        return sorted(name for name in found if not _ATTRIBUTE.fullmatch(name))


def _name(called: ast.expr) -> str:
    return called.id if isinstance(called, ast.Name) else ""


def names_read(text: str) -> set[str]:
    """Returns names that a statement reads or writes through."""
    return {
        node.id
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)
    }


def names_bound(text: str) -> set[str]:
    """Returns names that a statement assigns; `x += y` also counts as reading x."""
    found = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
    return found
