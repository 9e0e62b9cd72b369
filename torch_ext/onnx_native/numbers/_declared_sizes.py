"""The sizes of inputs in a native capture: numbers, and expressions of symbols."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch

from onnx_native import _library
from onnx_native.request import _inputs, _shapes, _sizes
from onnx_native.upstream import _upstream

if TYPE_CHECKING:
    from onnx_native._C import Capture, Symbol


class UnknownError(Exception):
    """The sizes are not declared in a way that the native capture takes; the message says how."""


# Each leaf's sizes: numbers, names of symbols, or expressions. The name of an integer's symbol.
LeafSizes = list[list[int | str] | str]


def of(leaves: Sequence[Any], inputs: _inputs.Inputs) -> tuple[LeafSizes, dict[str, Symbol]]:
    """Returns each leaf's sizes, and the symbols in them.

    A name such as "past + n" is the sum of the sizes with these names, if it is in the example.

    Raises:
        UnknownError: The sizes and their declarations do not fit.
    """
    specs = inputs.specs
    if not inputs.dynamic_shapes:
        specs = [None] * len(leaves)
    elif len(specs) != len(leaves) or not inputs.fit:
        raise UnknownError("dynamic_shapes does not fit the arguments")
    symbols: dict[str, Symbol] = {}
    sizes: LeafSizes = []
    sums: list[tuple[list[int | str], int, str]] = []
    for leaf, spec in zip(leaves, specs, strict=True):
        shape: list[int | str] = []
        if isinstance(leaf, torch.Tensor):
            shape = list(leaf.shape)
            for axis, entry in _shapes.axes_of(spec).items():
                if isinstance(entry, str) and " + " in entry:
                    sums.append((shape, axis, entry))
                elif _shapes.varies(entry):
                    shape[axis] = _declare(symbols, entry, leaf.shape[axis])
        elif isinstance(leaf, int) and not isinstance(leaf, bool) and _shapes.varies(spec):
            sizes.append(_declare(symbols, spec, leaf, is_size=False))
            continue
        elif _shapes.varies(spec):
            raise UnknownError(f"the input {leaf!r} is not a number")
        sizes.append(shape)
    for shape, axis, entry in sums:
        terms, size = entry.split(" + "), shape[axis]
        known = {name: symbols[name].example for name in terms if name in symbols}
        is_sum = len(known) == len(terms) and sum(known.values()) == size
        shape[axis] = entry if is_sum else _declare(symbols, entry, int(size))
    return sizes, symbols


def _declare(symbols: dict[str, Symbol], entry: Any, size: int, *, is_size: bool = True) -> str:
    """Adds the symbol of a size; returns its name, or the expression of a derived Dim."""
    if hasattr(entry, "root"):  # a*root + b
        if not is_size:
            raise UnknownError("an integer is declared by a derived Dim")
        offset = int(entry.fn(0))
        factor = int(entry.fn(1)) - offset
        root, rest = divmod(size - offset, factor)
        if rest != 0:
            raise UnknownError(f"the size {size} is not {entry.__name__}")
        return f"{factor}*{_declare(symbols, entry.root, root)} + {offset}"
    name = _shapes.name_of(entry)
    extension = _library.extension()
    origin = extension.Origin.NAMED if isinstance(entry, str) else extension.Origin.DECLARED
    if isinstance(entry, _shapes.Hint):
        origin = extension.Origin.INFERRED
    if name is None:
        is_dynamic = _upstream.is_dynamic_hint(entry)
        origin = extension.Origin.DYNAMIC if is_dynamic else extension.Origin.INFERRED
        name = next(f"s{i}" for i in range(len(symbols) + 1) if f"s{i}" not in symbols)
    low, high = (_bound(getattr(entry, field, None)) for field in ("min", "max"))
    symbol = extension.Symbol(size, low=low, high=high, origin=origin, is_size=is_size)
    if symbols.setdefault(name, symbol) != symbol:
        raise UnknownError(f"the name {name} stands for different sizes")
    smallest = symbol.lowest
    if (smallest is not None and size < smallest) or (high is not None and size > high):
        raise UnknownError(f"the size {size} of {name} is not in its range")
    return name


def dimensions(names: Sequence[str], sizes: LeafSizes) -> dict[str, str]:
    """Returns the first dimension of an input that has each symbol."""
    found: dict[str, str] = {}
    for name, shape in zip(names, sizes, strict=True):
        for axis, size in enumerate(shape if isinstance(shape, list) else ()):
            if isinstance(size, str):
                found.setdefault(size, f"dimension {axis} of {name}")
    return found


def related(
    sizes: LeafSizes, symbols: dict[str, Symbol], symbol: str, value: str
) -> tuple[LeafSizes, dict[str, Symbol]]:
    """Returns the sizes with an expression in place of a symbol. Symbols are identifiers."""
    pattern = rf"\b{symbol}\b"
    related: LeafSizes = [
        shape
        if isinstance(shape, str)
        else [re.sub(pattern, f"({value})", s) if isinstance(s, str) else s for s in shape]
        for shape in sizes
    ]
    return related, {name: known for name, known in symbols.items() if name != symbol}


def _bound(bound: Any) -> int | None:
    """A bound of a Dim; None where there is none."""
    return bound if isinstance(bound, int) and abs(bound) < 1 << 62 else None


def varied(
    inputs: _inputs.Inputs, sizes: LeafSizes, symbols: Mapping[str, Symbol], native: Capture
) -> _sizes.Sizes:
    """Returns what makes the arguments at other sizes of these symbols.

    Args:
        inputs: The example's arguments.
        sizes: Each leaf's sizes.
        symbols: The symbols in them.
        native: The recording, which says what it allows.
    """

    def dynamic(size: str) -> _sizes.DynamicSize:
        def at(sizes: Mapping[str, int]) -> int:
            found = native.sizes.evaluate(size, sizes)
            assert found is not None  # its symbols are sizes of inputs
            return found

        return at

    return _sizes.Sizes(
        (inputs.args, inputs.kwargs or {}),
        [
            dynamic(shape)
            if isinstance(shape, str)
            else [dynamic(size) if isinstance(size, str) else size for size in shape]
            for shape in sizes
        ],
        {name: symbol.example for name, symbol in symbols.items()},
        {name: _sizes.bounded(each.lowest, each.highest) for name, each in symbols.items()},
        native.sizes.allows,
    )
