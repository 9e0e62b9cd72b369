"""Makes inputs of a program at other sizes of its dynamic dimensions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch.export.graph_signature import ConstantArgument, InputKind

from onnx_native.upstream import _upstream

_LIMIT = 1 << 20  # a size that no dynamic dimension has in a test


# A size of an argument: a number, or its value for the dynamic sizes.
DynamicSize = Callable[[Mapping[str, int]], int]
Size = int | DynamicSize


class Sizes:
    """The dynamic sizes of a program, and its example's arguments at other sizes.

    Attributes:
        example: The size of each in the example inputs, by the names in the model.
        allows: Whether the program is valid at these sizes.
    """

    def __init__(
        self,
        arguments: Any,
        sizes: Sequence[Sequence[Size] | DynamicSize],
        example: dict[str, int],
        ranges: dict[str, tuple[int, int]],
        allows: Callable[[dict[str, int]], bool] = lambda _: True,
    ) -> None:
        """Describes sizes.

        Args:
            arguments: The example's (args, kwargs).
            sizes: For each leaf of the arguments: the sizes of a tensor, or the value of a number
                that varies; no sizes for other leaves.
            example: The sizes in the example.
            ranges: The smallest and the largest value of each.
            allows: Whether the program is valid at these sizes.
        """
        self._leaves, self._structure = _upstream.pytree.tree_flatten(arguments)
        self._sizes = sizes
        self.example = example
        self._ranges = ranges
        self.allows = allows

    def others(self) -> Iterator[list[dict[str, int]]]:
        """Yields groups of other sizes to try; one of each group is enough."""
        for group in (_larger, _smaller):
            tried = []
            for sizes in group(self.example, self._ranges):
                clipped = {
                    name: min(max(size, self._ranges[name][0]), self._ranges[name][1])
                    for name, size in sizes.items()
                }
                is_new = clipped != self.example and clipped not in tried
                if is_new and self.allows(clipped):
                    tried.append(clipped)
            if tried:
                yield tried

    def inputs(self, sizes: Mapping[str, int]) -> tuple[Any, Any]:
        """Returns the example's arguments with other sizes.

        Elements repeat along the axes, floating-point numbers each time a little smaller.
        """
        unknown = sorted(sizes.keys() - self.example.keys())
        if unknown:
            raise ValueError(
                f"the program has no dynamic size {', '.join(unknown)}; it has "
                f"{', '.join(self.example) or 'none'}"
            )
        chosen = {**self.example, **sizes}
        leaves = []
        for leaf, size in zip(self._leaves, self._sizes, strict=True):
            if callable(size):
                leaves.append(size(chosen))
                continue
            for axis, each in enumerate(size):
                leaf = resized(leaf, axis, each(chosen) if callable(each) else each)
            leaves.append(leaf)
        args, kwargs = _upstream.pytree.tree_unflatten(leaves, self._structure)
        return args, kwargs


def of_program(captured: torch.export.ExportedProgram, names: Mapping[str, str]) -> Sizes:
    """Returns the sizes of a captured program that has example inputs.

    Args:
        captured: The program.
        names: The model's names of symbols.
    """
    leaves = _upstream.pytree.tree_leaves(captured.example_inputs)
    recorded = user_inputs(captured)
    symbols: dict[str, Any] = {}
    example: dict[str, int] = {}
    ranges: dict[str, tuple[int, int]] = {}
    for leaf, value in zip(leaves, recorded, strict=True):
        for size, expression in _dynamic(leaf, value):
            for symbol in expression.free_symbols:
                name = names.get(str(symbol), str(symbol))
                solution = _solved(expression, symbol, size)
                if solution is None or name in symbols:
                    continue
                limits = captured.range_constraints.get(symbol)
                symbols[name] = symbol
                example[name] = solution
                ranges[name] = (
                    bounded(max(1, limits.lower), limits.upper) if limits else bounded(1, None)
                )

    def dynamic(value: torch.SymInt) -> DynamicSize:
        expression = _upstream.expression(value)
        return lambda sizes: int(expression.subs({symbols[n]: size for n, size in sizes.items()}))

    def sizes_of(value: Any) -> Sequence[Size] | DynamicSize:
        if isinstance(value, torch.SymInt):
            return dynamic(value)
        shape = value.shape if isinstance(value, torch.Tensor) else ()
        return [dynamic(size) if isinstance(size, torch.SymInt) else size for size in shape]

    return Sizes(captured.example_inputs, list(map(sizes_of, recorded)), example, ranges)


def user_inputs(captured: torch.export.ExportedProgram) -> list[Any]:
    """Returns what the capture recorded of each leaf of the arguments: a tensor or a number."""
    values = {
        node.name: node.meta.get("val") for node in captured.graph.find_nodes(op="placeholder")
    }
    return [
        spec.arg.value if isinstance(spec.arg, ConstantArgument) else values[spec.arg.name]
        for spec in captured.graph_signature.input_specs
        if spec.kind is InputKind.USER_INPUT
    ]


def names_in(captured: torch.export.ExportedProgram, inputs: Any) -> dict[str, str]:
    """Returns the model's names of the program's symbols.

    Args:
        captured: The program.
        inputs: The inputs of the ModelProto's graph.
    """
    values = [
        value
        for value in user_inputs(captured)
        if isinstance(value, (torch.Tensor, torch.SymInt, torch.SymFloat, torch.SymBool))
    ]
    names: dict[str, str] = {}
    for value, put in zip(values, inputs, strict=False):
        if isinstance(value, torch.SymInt):
            names.setdefault(str(_upstream.expression(value)), put.name)
        if not isinstance(value, torch.Tensor):
            continue
        for size, dim in zip(value.shape, put.type.tensor_type.shape.dim, strict=False):
            if isinstance(size, torch.SymInt) and dim.dim_param.isidentifier():
                names[str(_upstream.expression(size))] = dim.dim_param
    return names


def bounded(low: Any, high: Any) -> tuple[int, int]:
    """Returns a range with None for infinity."""
    return (
        int(-_LIMIT if low is None else max(low, -_LIMIT)),
        int(_LIMIT if high is None else min(high, _LIMIT)),
    )


def _dynamic(leaf: Any, example: Any) -> Iterator[tuple[int, Any]]:
    """Yields the sizes of an argument that are dynamic, and their expressions."""
    if isinstance(leaf, torch.Tensor):
        for size, recorded in zip(leaf.shape, example.shape, strict=True):
            if isinstance(recorded, torch.SymInt):
                yield size, _upstream.expression(recorded)
    elif isinstance(example, torch.SymInt):
        yield int(leaf), _upstream.expression(example)


def _solved(expression: Any, symbol: Any, size: int) -> int | None:
    """Returns the value of a symbol for which an expression of only this symbol has a size."""
    if expression == symbol:
        return size
    if expression.free_symbols != {symbol}:
        return None
    return next((n for n in range(size + 2) if expression.subs(symbol, n) == size), None)


def resized(tensor: torch.Tensor, axis: int, size: int) -> torch.Tensor:
    """Returns a tensor with another size along one axis, as in :meth:`Sizes.inputs`."""
    old = tensor.shape[axis]
    if old == size:
        return tensor
    if old == 0:
        shape = [*tensor.shape[:axis], size, *tensor.shape[axis + 1 :]]
        return torch.zeros(shape, dtype=tensor.dtype, device=tensor.device)
    index = torch.arange(size, device=tensor.device)
    repeated = tensor.detach().index_select(axis, index % old)
    if not tensor.is_floating_point():
        return repeated
    # Unlike repeated elements, smaller ones show if the model takes the wrong ones.
    scale = (1 - index // old % 8 / 16).to(tensor.dtype)
    return repeated * scale.reshape(-1, *(1,) * (tensor.dim() - 1 - axis))


def _larger(example: dict[str, int], ranges: Any) -> Iterator[dict[str, int]]:
    yield {name: size + 1 + i for i, (name, size) in enumerate(example.items())}
    for factor in (2, 3, 4):
        yield {name: size * factor for name, size in example.items()}
    for name, size in example.items():
        yield {**example, name: size + 1}
        yield {**example, name: size * 2}


def _smaller(example: dict[str, int], ranges: dict[str, tuple[int, int]]) -> Iterator[dict]:
    for least in (1, 2):
        yield {name: max(least, ranges[name][0]) for name in example}
    yield {name: size - 1 for name, size in example.items()}
    yield {name: size // 2 for name, size in example.items()}
    for name, size in example.items():
        yield {**example, name: size - 1}
        yield {**example, name: size // 2}
