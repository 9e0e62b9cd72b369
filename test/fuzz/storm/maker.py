"""Builds a program statement by statement and runs each statement in eager at all sizes."""

from __future__ import annotations

import ast
import copy
import random
from collections.abc import Callable, Sequence
from typing import Any

import torch

from storm import plain
from storm.program import PREAMBLE, SETS, Input, Program

FLOATS = ("float32", "float64", "float16", "bfloat16")
INTEGERS = ("int64", "int32", "int16", "int8", "uint8")
DTYPES = (*FLOATS, *INTEGERS, "bool", "complex64")
LARGEST = {torch.float16: 2000.0, torch.bfloat16: 2000.0}
TINY = {torch.float32: 5e-7, torch.float64: 1e-12}
MOST_ELEMENTS = 600
_PREAMBLE = compile(PREAMBLE, "<preamble>", "exec")

Predicate = Callable[[torch.Tensor], bool]


class NothingError(Exception):
    """The program's values do not allow this statement."""


class Maker:
    """A program under construction, and the values of its names for each set of inputs.

    Attributes:
        random: The source of random choices.
        route: The flavor of the program: "fx", "scripted" or "any".
        values: For each set of inputs, the values of the program's names.
    """

    def __init__(self, seed: int, flavor: str) -> None:
        self.random = random.Random(seed)
        self.flavor = flavor
        self.inputs: list[Input] = []
        self.inits: list[str] = []
        self.body: list[str] = []
        self.sizes: list[dict[str, int]] = [{} for _ in range(SETS)]
        self.values: list[dict[str, Any]] = []
        self.seed = seed % 100_000
        self._count = 0
        self.names: list[str] = []  # tensors and numbers that statements may use

    # The program.

    def program(self, results: Sequence[str] = ("0",)) -> Program:
        return Program(
            inputs=list(self.inputs),
            inits=list(self.inits),
            body=list(self.body),
            results=list(results),
            sizes=copy.deepcopy(self.sizes),
            seed=self.seed,
        )

    def start(self) -> None:
        """Sets the values of the inputs."""
        program = self.program()
        self.values = []
        for which in range(SETS):
            space: dict[str, Any] = {}
            exec(_PREAMBLE, space)
            space.update(plain.NAMES)
            arguments = program.arguments(which)
            space.update(zip((each.name for each in self.inputs), arguments, strict=True))
            module: Any = torch.nn.Module()
            space["self"] = module
            self.values.append(space)
        self.names = [each.name for each in self.inputs]

    def init(self, name: str, text: str, *, buffer: bool = False) -> str:
        """Adds a statement of ``__init__`` that creates an attribute."""
        line = f"self.register_buffer({name!r}, {text})" if buffer else f"self.{name} = {text}"
        made = []
        for space in self.values:
            torch.default_generator.manual_seed(self.seed)
            scope = dict(space)
            value = eval(text, scope)
            if isinstance(value, torch.nn.Module):
                value = value.eval()
            made.append(value)
        for space, value in zip(self.values, made, strict=True):
            if buffer:
                space["self"].register_buffer(name, value)
            else:
                setattr(space["self"], name, value)
        self.inits.append(line)
        return f"self.{name}"

    def layer(self, text: str) -> str:
        """Adds a layer; the statement that calls it must follow by `with_layer`."""
        try:
            return self.init(f"l{len(self.inits)}", text)
        except Exception:
            raise NothingError from None

    def with_layer(self, text: str, *names: str) -> bool:
        """Adds a statement that calls the last layer; removes the layer if that fails."""
        if self.add(text, *names):
            return True
        self.inits.pop()
        return False

    def assign(self, text: str, prefix: str = "t") -> bool:
        """Adds a statement that assigns an expression to a new name."""
        name = self.fresh(prefix)
        return self.add(f"{name} = {text}", name)

    def fresh(self, prefix: str = "t") -> str:
        self._count += 1
        return f"{prefix}{self._count}"

    def add(self, text: str, *names: str) -> bool:
        """Adds a statement if eager runs it at all sizes with acceptable results."""
        code = compile(text, "<statement>", "exec")
        before = [dict(space) for space in self.values]
        try:
            with torch.no_grad():
                for space in self.values:
                    exec(code, space)
            if not all(self._is_sound(space) for space in self.values):
                raise NothingError
            if not self._agrees([*names, *(name for name in self.names if name not in names)]):
                raise NothingError  # also if a statement changes the rank of an earlier tensor
        except Exception:
            self.values = before
            if self._writes(text):
                self._again()
            return False
        self.body.append(text)
        self.names += [name for name in names if name not in self.names]
        return True

    def _writes(self, text: str) -> bool:
        """Returns whether a statement may write to existing tensors."""
        tree = ast.parse(text)
        for node in ast.walk(tree):
            if isinstance(node, (ast.AugAssign, ast.For, ast.While, ast.If)):
                return True
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Subscript):
                return True
            if isinstance(node, ast.keyword) and node.arg in ("out", "inplace"):
                return True
            if isinstance(node, ast.Attribute) and node.attr.endswith("_"):
                return True
        return "self." in text

    def _again(self) -> None:
        """Reruns the program from its start: a rejected statement may have written to tensors."""
        names, program = self.names, self.program()
        self.start()
        self.names = names
        inits, self.inits = self.inits, []
        for line in inits:
            exec_init(self, line)
        with torch.no_grad():
            for space in self.values:
                for text in program.body:
                    exec(compile(text, "<statement>", "exec"), space)

    def _is_sound(self, space: dict[str, Any]) -> bool:
        """Rejects NaN and large numbers, because later results would depend on the last bit."""
        for name in [*self.names, *(k for k in space if k[:1] in "tifb" and k[1:].isdigit())]:
            value = space.get(name)
            if isinstance(value, torch.Tensor):
                if value.numel() > MOST_ELEMENTS or value.dim() > 6:
                    return False
                if value.dtype.is_floating_point or value.dtype.is_complex:
                    bound = LARGEST.get(value.dtype, 1e5)
                    if not bool((value.abs() <= bound).all()) or _is_tiny(value):
                        return False
            elif isinstance(value, (float, int)) and not _is_moderate(value):
                return False
        return True

    def _agrees(self, names: Sequence[str]) -> bool:
        """Checks that kind, dtype and rank are the same for all sets of inputs."""
        for name in names:
            kinds = set()
            for space in self.values:
                value = space[name]
                kinds.add(
                    (value.dtype, value.dim()) if isinstance(value, torch.Tensor) else type(value)
                )
            if len(kinds) > 1:
                return False
        return True

    # Choices.

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability

    def pick(self, *options: Any) -> Any:
        return self.random.choice(options)

    def value(self, name: str, which: int = 0) -> Any:
        """Returns the value of an expression."""
        return eval(name, self.values[which])

    def tensors(self, predicate: Predicate | None = None) -> list[str]:
        """Returns names of tensors that satisfy the predicate for all sets."""
        return [
            name
            for name in self.names
            if all(
                isinstance(space[name], torch.Tensor)
                and (predicate is None or predicate(space[name]))
                for space in self.values
            )
        ]

    def tensor(self, predicate: Predicate | None = None) -> str:
        """Returns one of them; later ones are more likely."""
        names = self.tensors(predicate)
        if not names:
            raise NothingError
        return names[max(self.random.randrange(len(names)) for _ in range(2))]

    def floating(self, rank: int | None = None) -> str:
        return self.tensor(lambda x: x.dtype.is_floating_point and rank in (None, x.dim()))

    def real(self, rank: int | None = None) -> str:
        """Returns a tensor that is not complex."""
        return self.tensor(lambda x: not x.is_complex() and rank in (None, x.dim()))

    def integral(self) -> str:
        return self.tensor(
            lambda x: not x.is_complex() and not x.is_floating_point() and x.dtype != torch.bool
        )

    def mate(self, name: str, predicate: Predicate | None = None) -> str:
        """Returns a tensor that broadcasts with another."""
        others = [
            other
            for other in self.tensors(predicate)
            if all(_broadcast(space[name], space[other]) for space in self.values)
        ]
        if not others:
            raise NothingError
        return others[max(self.random.randrange(len(others)) for _ in range(2))]

    def alike(self, name: str) -> str:
        """Returns a tensor of the same dtype and shape."""
        others = [
            other
            for other in self.tensors()
            if all(
                space[name].shape == space[other].shape and space[name].dtype == space[other].dtype
                for space in self.values
            )
        ]
        return self.random.choice(others)

    def dim(self, name: str) -> int:
        """Returns an axis of the tensor."""
        rank = self.value(name).dim()
        if not rank:
            raise NothingError
        return self.random.randrange(-rank, rank)

    def least(self, name: str, axis: int) -> int:
        """Returns the smallest size of an axis."""
        return min(space[name].shape[axis] for space in self.values)

    def is_static(self, name: str, axis: int) -> bool:
        return len({space[name].shape[axis] for space in self.values}) == 1

    def number(self, dtype: torch.dtype) -> str:
        """Returns a literal for a tensor of this dtype."""
        if dtype.is_floating_point and self.chance(0.7):
            return str(self.pick(0.5, -1.5, 2.0, 0.25, -0.125, 1.0, 3.7, -0.3))
        if dtype is torch.bool and self.chance(0.6):
            return self.pick("True", "False")
        if dtype is torch.uint8:
            return str(self.pick(0, 1, 2, 3, 7, 200))
        return str(self.pick(-3, -2, -1, 0, 1, 2, 3, 5, 7))

    def operand(self, name: str, predicate: Predicate | None = None) -> str:
        """Returns a tensor that broadcasts with it, a literal, or a number of the program."""
        roll = self.random.random()
        if roll < 0.6:
            return self.mate(name, predicate)
        numbers = self.numbers()
        if roll < 0.7 and numbers:
            return self.random.choice(numbers)
        return self.number(self.value(name).dtype)

    def numbers(self) -> list[str]:
        """Returns names of ints and floats."""
        return [
            name
            for name in self.names
            if isinstance(self.values[0][name], (int, float))
            and not isinstance(self.values[0][name], bool)
        ]

    def integers(self) -> list[str]:
        return [name for name in self.numbers() if isinstance(self.values[0][name], int)]

    def dtype(self, *, of: Sequence[str] = DTYPES) -> str:
        if self.chance(0.5) and "float32" in of:
            return "torch.float32"
        return f"torch.{self.random.choice(of)}"


def _is_tiny(value: torch.Tensor) -> bool:
    """Returns whether there are numbers so small that other rounding may give zero."""
    least = TINY.get(value.dtype)
    return least is not None and bool(((value != 0) & (value.abs() < least)).any())


def _is_moderate(value: float) -> bool:
    return abs(value) <= (1e5 if isinstance(value, float) else 10**9)


def exec_init(maker: Maker, line: str) -> None:
    """Reruns a statement of ``__init__``."""
    for space in maker.values:
        torch.default_generator.manual_seed(maker.seed)
        exec(line, space)
        for child in space["self"].children():
            child.eval()
    maker.inits.append(line)


def _broadcast(one: torch.Tensor, other: torch.Tensor) -> bool:
    return all(
        a == b or a == 1 or b == 1
        for a, b in zip(reversed(one.shape), reversed(other.shape), strict=False)
    )
