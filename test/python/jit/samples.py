"""Samples of the arguments of TorchScript's operators, written in its IR."""

from __future__ import annotations

import dataclasses
import itertools
from typing import Any

# The samples of numbers; lists and dicts are made of them.
VALUES: dict[str, list[Any]] = {
    "int": [2, 3, 1, 0, 4, -1],
    "float": [2.5, 0.5, -1.5, 3.0, 0.25],
    "bool": [True, False],
    "complex": [1 + 2j, 0.5 - 1j, 3 + 0j],
    "str": ["b a", "a", "ab", "7", "Bc\n"],
    "number": [3, 2.5, 2, -1.5, True],
    "Device": ["cpu"],
    "Tensor": [1.0, 2.0, 3.0],
}


class NoSampleError(Exception):
    """No sample can be made."""


@dataclasses.dataclass(frozen=True)
class Type:
    """A type of TorchScript: a name, and the types of elements."""

    name: str
    of: tuple[Type, ...] = ()

    @property
    def text(self) -> str:
        """The type as IR writes it."""
        inner = [kind.text for kind in self.of]
        if self.name == "Tuple":
            return f"({', '.join(inner)})"
        if self.name == "Dict":
            return f"Dict({', '.join(inner)})"
        suffix = {"List": "[]", "Optional": "?"}.get(self.name)
        return inner[0] + suffix if suffix else {"number": "Scalar"}.get(self.name, self.name)

    def has(self, name: str) -> bool:
        return self.name == name or any(kind.has(name) for kind in self.of)


def parse(annotation: str, stands_for: str) -> Type:
    """Parses a type as Python writes it; `stands_for` replaces type variables."""
    if annotation in ("t", "t1", "t2", "tVal", "Any"):
        return parse(stands_for, "")
    if annotation in ("Layout", "ScalarType"):
        return Type("int")
    name, bracket, inner = annotation.partition("[")
    if not bracket:
        return Type(name)
    parts, depth = [""], 0
    for character in inner[:-1]:
        depth += {"[": 1, "]": -1}.get(character, 0)
        if character == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    return Type(name, tuple(parse(part.strip(), stands_for) for part in parts))


def values_of(kind: Type, n: int) -> Any:
    """Returns the n-th value of a type."""
    if kind.name == "List":
        if kind.of[0].name == "Tuple":  # pairs for a dict, one key twice
            return [values_of(kind.of[0], i) for i in (n, n + 1, n)]
        order = ([1, 2, 0, 2], [0], [2, 1], [0, 1, 2, 0])[n % 4]
        return [values_of(kind.of[0], i) for i in order]
    if kind.name == "Dict":
        keys = [values_of(kind.of[0], i) for i in range(1 + n % 3)]
        return {key: values_of(kind.of[1], i) for i, key in enumerate(keys)}
    if kind.name == "Tuple":
        return tuple(values_of(inner, n) for inner in kind.of)
    if kind.name == "Optional":
        return None if n % 2 else values_of(kind.of[0], n)
    if kind.name not in VALUES:
        raise NoSampleError
    return VALUES[kind.name][n % len(VALUES[kind.name])]


class Writer:
    """Writes values in TorchScript's IR.

    Attributes:
        lines: The lines so far.
    """

    def __init__(self, source: str, prefix: str = "v") -> None:
        self._source = source
        self._names = (f"%{prefix}{i}" for i in itertools.count())
        self.lines: list[str] = []

    def call(self, kind: str, operator: str, *operands: str) -> str:
        name = next(self._names)
        self.lines.append(f"{name} : {kind} = {operator}({', '.join(operands)})")
        return name

    def value(self, kind: Type, n: int) -> str:
        """Writes the n-th value of a type. Its numbers come from the source."""
        return self._write(kind, values_of(kind, n), self._number)

    def literal(self, kind: Type, value: Any) -> str:
        return self._write(kind, value, self._constant)

    def _write(self, kind: Type, value: Any, number: Any) -> str:
        if kind.name == "List":
            items = [self._write(kind.of[0], item, number) for item in value]
            return self.call(kind.text, "prim::ListConstruct", *items)
        if kind.name == "Tuple":
            parts = [self._write(k, v, number) for k, v in zip(kind.of, value, strict=True)]
            return self.call(kind.text, "prim::TupleConstruct", *parts)
        if kind.name == "Dict":
            parts = [
                self._write(inner, part, self._constant if inner is kind.of[0] else number)
                for pair in value.items()
                for inner, part in zip(kind.of, pair, strict=True)
            ]
            return self.call(kind.text, "prim::DictConstruct", *parts)
        if kind.name == "Optional":
            if value is None:
                return self.call("NoneType", "prim::Constant")
            return self._write(kind.of[0], value, number)
        if kind.name == "Tensor":
            one = self._constant("int", 1)
            return self.call("Tensor", "aten::add", "%x", self._constant("float", value), one)
        if kind.name == "number":
            inner = type(value).__name__
            return self.call("Scalar", "prim::unchecked_cast", number(inner, value))
        return str(number(kind.name, value))

    def _constant(self, kind: str | Type, value: Any) -> str:
        name = kind.name if isinstance(kind, Type) else kind
        if name in ("str", "Device"):
            text = value.replace("\n", "\\n")
            return self.call(name, f'prim::Constant[value="{text}"]')
        if name == "complex":
            parts = [self._constant("float", part) for part in (value.real, value.imag)]
            return self.call("complex", "aten::Complex", *parts)
        value = float(value) if name == "float" else int(value)
        return self.call(name, f"prim::Constant[value={value!r}]")

    def _number(self, kind: str, value: Any) -> str:
        """Writes a number that is a constant, a size or an element of the input."""
        if self._source == "constants" or kind not in ("int", "float", "bool"):
            return self._constant(kind, value)
        zero, one = self._constant("int", 0), self._constant("int", 1)
        if self._source == "sizes":
            size = self.call("int", "aten::size", "%x", zero)
            number = self.call("int", "aten::sub", size, self._constant("int", 5 - int(value)))
            if kind == "int":
                return number
            if kind == "bool":
                return self.call("bool", "aten::gt", number, zero)
            exact = self.call("float", "aten::Float", number)
            return self.call("float", "aten::add", exact, self._constant("float", value % 1))
        element = self.call("Tensor", "aten::select", "%x", zero, zero)
        shifted = self.call(
            "Tensor", "aten::add", element, self._constant("float", float(value)), one
        )
        return self.call(kind, f"aten::{kind.capitalize()}", shifted)
