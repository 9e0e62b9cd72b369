"""The calls of a recorded program, in a form in which the steps of a loop look alike."""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
import operator
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch

from onnx_native.recording import _recorded_program
from onnx_native.upstream import _upstream

aten = torch.ops.aten
_END = 2**63 - 1


@dataclasses.dataclass(frozen=True)
class Ref:
    """A value of a program.

    Attributes:
        kind: "input", "constant" or "call".
        at: The number of the input or of the call; the key of the constant.
        path: Where the value is in the results of the call.
    """

    kind: str
    at: Any
    path: tuple[int, ...] = ()


@dataclasses.dataclass(frozen=True)
class RowView:
    """A row of a tensor along an axis: ``x[:, t]``.

    It is a view: when it is selected does not matter. So it is no call, but selected where it is
    used.

    Attributes:
        of: The tensor: a Ref or a RowView; in a rolled program, its role.
        axis: The axis.
        index: A number.
    """

    of: Any
    axis: int
    index: Any


@dataclasses.dataclass(frozen=True)
class Size:
    """A number that follows from sizes of inputs: an expression and a number, added.

    Attributes:
        of: A Ref of a number; ("size", Ref, axis); or (function, operands).
        plus: The number.
    """

    of: Any
    plus: int = 0


@dataclasses.dataclass(frozen=True)
class _Piece:
    """One of the pieces of a tensor whose sizes depend on data: ``torch.split(x, sizes.tolist())``.

    It is a view: when it is taken does not matter. So each use takes it, in its own step.
    """

    of: Any
    axis: Any
    start: Ref
    size: Ref
    split: torch.fx.Node


@dataclasses.dataclass
class RecordedCall:
    """A call of a function, with the place in the program that called it."""

    target: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    location: Any

    def leaves(self) -> list[Any]:
        return list(leaves_of((self.args, self.kwargs)))


def leaves_of(tree: Any) -> Iterator[Any]:
    """The values and numbers in arguments. A list of values is one leaf, a tuple: its length may
    depend on the size."""
    if _is_list_of_values(tree):
        yield tuple(tree)
    elif isinstance(tree, (tuple, list)):
        for each in tree:
            yield from leaves_of(each)
    elif isinstance(tree, dict):
        for each in tree.values():
            yield from leaves_of(each)
    else:
        yield tree


def with_leaves(tree: Any, leaves: Iterator[Any]) -> Any:
    """Returns arguments with other leaves, in the order of leaves_of()."""
    if _is_list_of_values(tree):
        return list(next(leaves))
    if isinstance(tree, (tuple, list)):
        return type(tree)(with_leaves(each, leaves) for each in tree)
    if isinstance(tree, dict):
        return {key: with_leaves(value, leaves) for key, value in tree.items()}
    return next(leaves)


def is_values(leaf: Any) -> bool:
    """Whether a leaf is a list of values."""
    return isinstance(leaf, tuple) and bool(leaf) and isinstance(leaf[0], (Ref, RowView))


def _is_list_of_values(tree: Any) -> bool:
    return (
        isinstance(tree, list)
        and bool(tree)
        and all(isinstance(each, (Ref, RowView)) for each in tree)
    )


def _signature(tree: Any) -> Any:
    """What arguments are, without the numbers and values that may differ between steps."""
    if _is_list_of_values(tree):
        return "values"
    if isinstance(tree, (tuple, list)):
        return tuple(map(_signature, tree))
    if isinstance(tree, dict):
        return tuple((key, _signature(value)) for key, value in tree.items())
    if isinstance(tree, (Ref, RowView)):
        return "value"
    if isinstance(tree, Size):
        return "size", _form(tree.of)
    if isinstance(tree, int) and not isinstance(tree, bool):
        return "integer"
    return type(tree).__name__, repr(tree)


def _form(of: Any) -> Any:
    """An expression of sizes without its numbers. See Size.of."""
    if isinstance(of, Size):
        return _form(of.of)
    if type(of) in (int, float):
        return type(of)
    if isinstance(of, (Ref, bool)) or of[:1] == ("size",):
        return of
    function, operands = of
    return function, tuple(map(_form, operands))


def scan_begin(init: list[Any], xs: list[Any]) -> tuple[list[Any], list[Any]]:
    """The states and the slices that the body of a scan gets, whose calls follow."""
    raise NotImplementedError


def scan_end(states: list[Any], results: list[Any]) -> list[Any]:
    """The last states and the stacked results of the scan whose body ends here."""
    raise NotImplementedError


class Calls:
    """The calls of a recording.

    Attributes:
        calls: The calls, in order. Rows, and numbers that follow from sizes of inputs, are none.
        signatures: What each call is, without numbers and values.
        outputs: The results: values and numbers. The last ones are written to tensors.
        written: These tensors: a name in the module, or the number of an input.
        constants: The tensors that the calls use, by their keys.
        shapes: The shapes of results of calls. See Builder.add_call().
    """

    def __init__(
        self,
        program: _recorded_program.Program,
        written: Sequence[str | int],
        state: Mapping[str, Any],
        lengths: Mapping[tuple[int, int], int],
    ) -> None:
        """Reads a recording.

        Args:
            program: The recording.
            written: See Calls.written.
            state: The tensors of the module by their names.
            lengths: The axes of inputs, as (input, axis), whose size is the length: the length.
        """
        self.written = list(written)
        self._lengths = lengths
        self._state = state
        self.calls: list[RecordedCall] = []
        self.constants: dict[str, torch.Tensor] = {}
        self.shapes: dict[Ref, list[tuple[str, int]]] = {}
        self._values: dict[torch.fx.Node, Any] = {}
        self._starts: dict[tuple[Ref, ...], list[Ref]] = {}  # of pieces, by their sizes
        inputs = (Ref("input", i) for i in itertools.count())
        self.outputs = self._read(program, inputs)
        self.signatures = [
            (call.target, _signature((call.args, call.kwargs))) for call in self.calls
        ]

    def _read(self, program: _recorded_program.Program, inputs: Iterator[Any]) -> list[Any]:
        """Adds the calls of a program, or of a body, and returns its results."""
        for node in program.graph.nodes:
            if node.op == "placeholder":
                self._values[node] = next(inputs)
            elif node.op == "get_attr":
                self._values[node] = self._constant(node.name, getattr(program, node.target))
            elif node.op == "output":
                return [self._of(each) for each in node.args[0]]
            elif node.target is _recorded_program.scan:
                self._values[node] = self._scan(node)
            else:
                value = self._values[node] = self._value(node)
                if isinstance(value, Ref) and (shape := node.meta.get("shape")):
                    self.shapes[value] = shape
        raise AssertionError("a graph has results")

    def _scan(self, node: torch.fx.Node) -> Ref:
        """Adds a scan: the calls of its body, between those of scan_begin and scan_end."""
        body, init, xs, captured = node.args
        given = [self._of(init), self._of(xs)]
        begin = self._add(scan_begin, given, {}, node)
        values: list[Any] = [
            dataclasses.replace(begin, path=(part, i))
            for part, operands in enumerate(given)
            for i in range(len(operands))
        ]
        results = self._read(body, iter([*values, *self._of(captured)]))  # type: ignore[arg-type]
        count = len(given[0])
        return self._add(scan_end, [results[:count], results[count:]], {}, node)

    def _constant(self, name: str, tensor: torch.Tensor) -> Ref:
        """A constant that is no tensor of the module is known by its elements."""
        key = name
        if name not in self._state:
            elements = tensor.detach().contiguous().reshape(-1).view(torch.uint8)
            digest = hashlib.sha256(elements.numpy().tobytes()).hexdigest()
            key = f"{tensor.dtype} {tuple(tensor.shape)} {digest}"
        self.constants.setdefault(key, self._state.get(name, tensor))
        return Ref("constant", key)

    def _value(self, node: torch.fx.Node) -> Any:
        target: Any = node.target
        args = node.args
        if target is operator.getitem and isinstance(args[0], torch.fx.Node):
            ref = self._values[args[0]]
            if isinstance(ref, list):
                return ref[args[1]]  # type: ignore[index]
            return dataclasses.replace(ref, path=(*ref.path, args[1]))
        if target is aten.slice.Tensor and args[2:] == (0, _END, 1):
            return self._values[args[0]]  # type: ignore[index]
        if target is aten.select.int:
            of, axis, index = map(self._of, args)
            if isinstance(of, (Ref, RowView)) and isinstance(index, (int, Size)):
                return RowView(of, axis, index)
        if target is aten.sym_size.int:
            of, axis = map(self._of, args)
            if isinstance(of, Ref) and of.kind != "call":
                length = self._lengths.get((of.at, axis)) if of.kind == "input" else None
                return Size(("size", of, axis)) if length is None else length
        elif target is aten.split_with_sizes.default:
            of, sizes, *axis = map(self._of, args)
            if all(isinstance(each, Ref) and each.kind == "call" for each in sizes):
                return self._pieces(node, of, sizes, *axis)
        elif not isinstance(target, _upstream.OpOverload) and not node.kwargs:
            size = self._size(target, tuple(map(self._of, args)))
            if size is not None:
                return size
        return self._add(target, self._of(args), self._of(node.kwargs), node)

    def _pieces(
        self, node: torch.fx.Node, of: Any, sizes: Sequence[Ref], axis: Any = 0
    ) -> list[_Piece]:
        """The pieces of a tensor, with calls that sum up their sizes."""
        starts = self._starts.get(tuple(sizes))
        if starts is None:
            starts = self._starts[tuple(sizes)] = []
            end = self._add(operator.sub, [sizes[0], sizes[0]], {}, node)
            for size in sizes:
                starts.append(self._add(operator.add, [end, 0], {}, node))
                end = self._add(operator.add, [starts[-1], size], {}, node)
        return [
            _Piece(of, axis, start, size, node) for start, size in zip(starts, sizes, strict=True)
        ]

    def _taken(self, piece: _Piece) -> Ref:
        args = [piece.of, piece.axis, piece.start, piece.size]
        return self._add(aten.narrow.default, args, {}, piece.split)

    def _size(self, function: Any, operands: tuple[Any, ...]) -> Size | int | None:
        """A number that follows from sizes; None for other calls."""
        if not all(isinstance(each, (Size, Ref, int, float)) for each in operands):
            return None
        if any(isinstance(each, Ref) and each.kind == "call" for each in operands):
            return None
        if function is operator.add:
            first, second = operands
            if isinstance(first, int) and isinstance(second, int):
                return first + second
            if isinstance(first, Size) and isinstance(second, int):
                return dataclasses.replace(first, plus=first.plus + second)
        return Size((function, operands))

    def _add(self, target: Any, args: Any, kwargs: Any, node: torch.fx.Node) -> Ref:
        call = RecordedCall(target, tuple(args), dict(kwargs), node.meta["location"])
        self.calls.append(call)
        return Ref("call", len(self.calls) - 1)

    def _of(self, tree: Any) -> Any:
        if isinstance(tree, torch.fx.Node):
            value = self._values[tree]
            return self._taken(value) if isinstance(value, _Piece) else value
        if isinstance(tree, (tuple, list)):
            return type(tree)(map(self._of, tree))
        if isinstance(tree, dict):
            return {key: self._of(value) for key, value in tree.items()}
        return tree
