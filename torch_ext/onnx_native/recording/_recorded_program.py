"""A program that was recorded natively or as TorchScript, as a graph of torch.fx to run."""

from __future__ import annotations

import builtins
import contextlib
import itertools
import math
import operator
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch

from onnx_native import _library
from onnx_native.lowerings import _fallbacks
from onnx_native.upstream import _upstream

if TYPE_CHECKING:
    from onnx_native._C import Location, Relation

# Where the functions are that the recorder writes down as python::add.
_PYTHON = (operator, math, torch, builtins)


class Program(torch.nn.Module):
    """Holds a program's tensors. Calling it runs the program, as a body of another one.

    Attributes:
        graph: The calls. Their ``meta`` has "source", the line of the program ("model.py:42"),
            "module" ("encoder (Encoder)") and "location", which has both. They have "shape" in a
            program that is rolled; see Builder.add_call().
    """

    def __init__(self, graph: torch.fx.Graph) -> None:
        super().__init__()
        self.graph = graph

    def forward(self, *inputs: Any) -> Any:
        return torch.fx.Interpreter(self, graph=self.graph).run(*inputs)


def results(program: Program, inputs: Sequence[Any]) -> list[Any]:
    """Runs a whole program in eager; its tensors and the inputs keep their contents."""
    for name, value in vars(program).items():
        if isinstance(value, torch.Tensor):
            setattr(program, name, value.detach().clone())
    copies = [each.detach().clone() if isinstance(each, torch.Tensor) else each for each in inputs]
    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        return list(program(*copies))


def depends_on_inputs(program: Program, count: int) -> bool:
    """Whether one of the last outputs may be another one for other inputs."""
    found = set(program.graph.find_nodes(op="placeholder"))
    for node in program.graph.nodes:
        if found.isdisjoint(node.all_input_nodes):
            continue
        target = node.target
        if isinstance(target, _upstream.OpOverload) and _upstream.schema(target).is_mutable:
            return True  # it may write to any tensor
        found.add(node)
    (output,) = program.graph.find_nodes(op="output")
    return not found.isdisjoint(output.args[0][-count:] if count else ())


class Builder:
    """Makes a Program of what the native code tells of its graph, in order.

    The names of values are theirs in the model.
    """

    def __init__(self) -> None:
        self._graph = torch.fx.Graph()
        self._program = Program(self._graph)
        self._numbers = itertools.count()

    def body(self) -> Builder:
        """Returns the builder of a branch or the body of a loop."""
        return Builder()

    def add_input(self, name: str) -> torch.fx.Node:
        """Adds an input."""
        return self._named(self._graph.placeholder("input"), name)

    def add_constant(self, name: str, tensor: torch.Tensor, is_parameter: bool) -> torch.fx.Node:
        """Adds a tensor of the module or of the program."""
        attribute = f"constant_{next(self._numbers)}"
        value = torch.nn.Parameter(tensor, requires_grad=False) if is_parameter else tensor
        setattr(self._program, attribute, value)
        return self._named(self._graph.create_node("get_attr", attribute), name)

    def add_call(
        self,
        op: str,
        arguments: list[Any],
        names: list[str],
        location: Location,
        shapes: Sequence[list[tuple[str, int]] | None] = (),
    ) -> list[torch.fx.Node]:
        """Adds a call of an operator, whose arguments are in the order of its schema.

        Args:
            op: The operator: "aten::add.Tensor".
            arguments: Numbers, text, dtypes, results of calls, and bodies, which are Programs.
            names: The names of the results. A list has one for each of its tensors.
            location: Where the program calls it.
            shapes: The shapes of the results, if they are told: each size is an expression of
                symbols and a number, which are added.

        Returns:
            The results.

        Raises:
            NotImplementedError: The operator cannot be called.
        """
        target = _function(op)
        keywords = {}
        paths: list[tuple[int, ...]] = [(i,) for i in range(len(names))]
        if isinstance(target, _upstream.OpOverload):
            schema = _upstream.schema(target)
            parameters = list(zip(schema.arguments, arguments, strict=False))
            keywords = {p.name: _typed(p, value) for p, value in parameters if p.kwarg_only}
            arguments = [_typed(p, value) for p, value in parameters if not p.kwarg_only]
            paths = _paths([str(each.type) for each in schema.returns], len(names))
        elif not op.startswith("higher_order::"):
            paths = [()] * len(names)
        call = self._graph.call_function(target, tuple(arguments), keywords)
        call.meta.update(source=location.source, module=location.module, location=location)
        parts = [self._part(call, path, name) for path, name in zip(paths, names, strict=True)]
        for part, shape in zip(parts, shapes, strict=False):
            part.meta["shape"] = shape
        return parts

    def program(self, outputs: list[Any]) -> Program:
        """Ends the graph."""
        self._graph.output(tuple(outputs))
        return self._program

    def _part(self, call: torch.fx.Node, path: tuple[int, ...], name: str) -> torch.fx.Node:
        """Returns one result of a call, which may have several."""
        part = call
        for index in path:
            part = self._graph.call_function(operator.getitem, (part, index))
            part.meta.update(call.meta)
        return self._named(part, name)

    def _named(self, node: torch.fx.Node, name: str) -> torch.fx.Node:
        node.name = name  # as it is, although it may be no name in Python
        return node


def _paths(returns: Sequence[str], count: int) -> list[tuple[int, ...]]:
    """Returns where each of a call's results is: in a tuple, in a list, or in a list in a tuple."""
    if len(returns) == 1:
        return [(i,) for i in range(count)] if _is_list(returns[0]) else [()]
    paths: list[tuple[int, ...]] = []
    in_lists = count - sum(not _is_list(kind) for kind in returns)
    for i, kind in enumerate(returns):
        paths += [(i, j) for j in range(in_lists)] if _is_list(kind) else [(i,)]
    return paths


def _is_list(kind: str) -> bool:
    return kind.startswith("List")


def _typed(parameter: Any, value: Any) -> Any:
    """Returns an argument for PyTorch: a layout or a memory format is an object, not its name."""
    is_enum = parameter.name in ("layout", "memory_format")
    return getattr(torch, value) if is_enum and isinstance(value, str) else value


def _function(op: str) -> Callable[..., Any]:
    namespace, _, name = op.partition("::")
    found: Callable[..., Any] | None = None
    if namespace == "python":
        found = next((getattr(place, name) for place in _PYTHON if hasattr(place, name)), None)
    elif namespace == "higher_order":
        found = _HIGHER_ORDER.get(name)
    elif namespace == "capture":
        found = decided
    else:
        with contextlib.suppress(AttributeError):
            found = _fallbacks.overload(op)
    if found is None:
        raise NotImplementedError(f"{op} cannot be run call by call")
    return found


def decided(rest: str, number: int, relation: str, holds: bool, is_of_empty: bool) -> None:
    """A decision of the program at a length that is counted: rest + number <relation> 0.

    If `is_of_empty`, the condition differs for an empty input.
    """


def relations() -> dict[str, Relation]:
    """The relations of decisions by their names."""
    relation = _library.extension().Relation
    return {
        "python::eq": relation.EQUAL,
        "python::lt": relation.LESS,
        "python::le": relation.LESS_EQUAL,
    }


# The operators that run bodies.


def cond(condition: Any, yes: Program, no: Program, operands: list[Any]) -> Any:
    return (yes if condition else no)(*operands)


def while_loop(
    condition: Program, body: Program, carried: list[Any], additional: list[Any]
) -> tuple[Any, ...]:
    values = tuple(carried)
    while condition(*values, *additional)[0]:
        values = tuple(body(*values, *additional))
    return values


def for_loop(
    steps: int | None, condition: Any, body: Program, states: list[Any], captured: list[Any]
) -> tuple[Any, ...]:
    values, stacked, step = tuple(states), [], 0
    while condition and (steps is None or step < steps):
        condition, *results = body(step, *values, *captured)
        values = tuple(results[: len(states)])
        stacked.append(results[len(states) :])
        step += 1
    return _with_rows(values, stacked)


def _with_rows(values: tuple[Any, ...], rows: list[list[Any]]) -> tuple[Any, ...]:
    """Returns the last values, and what each step added, stacked."""
    return (*values, *map(torch.stack, map(list, zip(*rows, strict=True))))


def scan(
    body: Program, init: list[Any], xs: list[torch.Tensor], captured: list[Any]
) -> tuple[Any, ...]:
    values, stacked = tuple(init), []
    for slices in zip(*xs, strict=True):
        results = body(*values, *slices, *captured)
        values = tuple(results[: len(init)])
        stacked.append(results[len(init) :])
    return _with_rows(values, stacked)


def scan_pieces(
    body: Program,
    init: list[Any],
    xs: list[torch.Tensor],
    captured: list[Any],
    axes: list[int | None],
) -> tuple[Any, ...]:
    values, found = tuple(init), []
    for slices in zip(*xs, strict=True):
        results = body(*values, *slices, *captured)
        values = tuple(results[: len(init)])
        found.append(results[len(init) :])
    columns = zip(axes, zip(*found, strict=True), strict=True)
    joined = [
        torch.stack(each) if axis is None else torch.cat(each, axis) for axis, each in columns
    ]
    return (*values, *joined)


def map_impl(body: Program, xs: list[torch.Tensor], captured: list[Any]) -> tuple[Any, ...]:
    return scan(body, [], xs, captured)


_HIGHER_ORDER: dict[str, Callable[..., Any]] = {
    function.__name__: function
    for function in (cond, while_loop, for_loop, scan, scan_pieces, map_impl)
}
