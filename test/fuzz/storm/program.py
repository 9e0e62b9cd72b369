"""A program as source text: its inputs, statements and results, and how it is exported."""

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
from typing import Any

import torch

from storm import plain

SETS = 3  # sets of inputs; the first is the one that the program is exported for

# What the source of a program may name.
PREAMBLE = """\
import math
import torch
import torch.nn.functional as F
from typing import Dict, List, Optional, Tuple
from torch import Tensor, cond, nn
from torch._higher_order_ops import scan, while_loop
"""

_ATTRIBUTE = re.compile(r"[lb]\d+")  # layers and buffers
_counter = itertools.count()


@dataclasses.dataclass
class Input:
    """An argument of forward: a tensor, or an open int where ``dtype`` is "int".

    Attributes:
        name: Its name.
        dtype: The tensor's dtype without "torch.".
        dims: Sizes: numbers, or names of dynamic dimensions.
        low: The least number in it.
        high: The greatest number in it.
    """

    name: str
    dtype: str
    dims: list[int | str]
    low: int = -4
    high: int = 4

    def annotation(self) -> str:
        return "int" if self.dtype == "int" else "Tensor"

    def value(self, sizes: dict[str, int], seed: int) -> Any:
        """A tensor of small numbers: those of floats are multiples of 1/8, zeros among them."""
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
class Program:
    """One random program and the choices of its export.

    Attributes:
        inputs: The arguments of forward.
        inits: Statements of ``__init__``.
        body: Statements of ``forward``; a statement may have several lines.
        results: Expressions that forward returns.
        sizes: For each set of inputs, the dynamic dimensions' sizes.
        seed: Seed of inputs and weights.
        routes: The routes that it is for.
        opset: The ONNX opset.
        state: Whether buffers and inputs that it writes to are results of the model.
        functions: Whether modules become local functions.
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

    def source(self) -> str:
        """The module class, with all that it needs to be read alone."""
        arguments = "".join(f", {each.name}: {each.annotation()}" for each in self.inputs)
        lines = [PREAMBLE, "", "class M(nn.Module):"]
        if self.inits:
            lines += ["    def __init__(self):", "        super().__init__()"]
            lines += [f"        {line}" for text in self.inits for line in text.splitlines()]
            lines.append("")
        lines.append(f"    def forward(self{arguments}):")
        lines += [f"        {line}" for text in self.body for line in text.splitlines()]
        comma = "," if len(self.results) == 1 else ""
        lines.append(f"        return ({', '.join(self.results)}{comma})")
        return "\n".join(lines) + "\n"

    def module(self, *, is_plain: bool = False) -> torch.nn.Module:
        """A module of the class, in evaluation mode unless a statement says otherwise.

        With ``is_plain`` the operators of control flow are Python's, to be run but not captured.

        The source is kept where `inspect` finds it, so that TorchScript can compile it.
        """
        source = self.source()
        name = f"<storm {next(_counter)}>"
        linecache.cache[name] = (len(source), None, source.splitlines(True), name)
        namespace: dict[str, Any] = {"__name__": "storm_program"}
        sys.modules.setdefault("storm_program", types.ModuleType("storm_program"))
        exec(compile(source, name, "exec"), namespace)
        if is_plain:
            namespace.update(plain.NAMES)
        torch.default_generator.manual_seed(self.seed)
        module: torch.nn.Module = namespace["M"]()
        return module.eval()

    def arguments(self, which: int) -> tuple[Any, ...]:
        """The arguments of one set."""
        return tuple(
            each.value(self.sizes[which], self.seed * 1000 + which * 100 + place)
            for place, each in enumerate(self.inputs)
        )

    def dynamic_shapes(self) -> tuple[Any, ...] | None:
        """What torch.onnx.export takes, by position; None where all is static."""
        if not self.is_dynamic():
            return None
        return tuple(
            f"{each.name}_value"
            if each.dtype == "int"
            else {axis: dim for axis, dim in enumerate(each.dims) if isinstance(dim, str)}
            for each in self.inputs
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
        fields["routes"] = tuple(fields["routes"])
        return Program(**fields)

    def operators(self) -> list[str]:
        """Names of the functions and methods that the statements call, sorted."""
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
    """Names that a statement reads, or writes through."""
    return {
        node.id
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)
    }


def names_bound(text: str) -> set[str]:
    """Names that a statement gives a value; `x += y` counts as reading x, too."""
    found = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
    return found
