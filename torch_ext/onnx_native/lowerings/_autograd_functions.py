"""Autograd functions that have a symbolic function: a call becomes the nodes that it adds.

While a program is captured, such a call is a call of an operator of this package. The operator
computes what the autograd function computes, and its lowering runs the symbolic function.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch

from onnx_native import _context, _library, _replaced, _undo
from onnx_native.lowerings import _symbolics
from onnx_native.upstream import _upstream

_OP = "onnx_native::autograd_function"
_numbers = itertools.count()
_calls: dict[int, _Call] = {}
_registered = threading.Lock()
_unused = threading.local()  # messages about symbolic functions that have no effect


@dataclasses.dataclass
class _Call:
    """A call of an autograd function.

    Attributes:
        function: The class.
        arguments: The arguments, with None in the places of tensors.
        places: The places of the tensors.
        constants: The elements of tensors that the symbolic function gets as constants, by place.
        results: The number of results of the symbolic function.
        returns_tuple: Whether the autograd function returns a tuple; known once it has run.
    """

    function: Any
    arguments: list[Any]
    places: list[int]
    constants: dict[int, torch.Tensor] = dataclasses.field(default_factory=dict)
    results: int = 0
    returns_tuple: bool = False

    def filled(self, tensors: Sequence[Any]) -> list[Any]:
        arguments = list(self.arguments)
        for place, tensor in zip(self.places, tensors, strict=True):
            arguments[place] = tensor
        return arguments

    def run(self, tensors: Sequence[torch.Tensor]) -> Any:
        """Computes what the autograd function computes."""
        arguments = self.filled(tensors)
        if _upstream.has_setup_context(self.function.setup_context):
            made = self.function.forward(*arguments)
        else:
            made = self.function.forward(_Context(len(arguments)), *arguments)
        self.returns_tuple = not isinstance(made, torch.Tensor)
        results = tuple(made) if self.returns_tuple else (made,)
        if len(results) != self.results or not all(isinstance(r, torch.Tensor) for r in results):
            raise RuntimeError(
                f"forward of {self.function.__qualname__} does not return the {self.results} "
                "tensors of its symbolic function"
            )
        return results if self.results > 1 else results[0]

    def graph(self, opset: int, values: Sequence[Any]) -> tuple[_symbolics.Graph, list[Any]]:
        """Runs the symbolic function on tensors or values; returns its graph and its results."""
        graph = _symbolics.Graph(opset)
        tensors = [
            graph.known_tensor(self.constants[place], value)
            if place in self.constants
            else graph.tensor(value.dtype, value.shape, value)
            for place, value in zip(self.places, values, strict=True)
        ]
        return graph, graph.call(self.function.symbolic, self.filled(tensors))


class _Context(torch.autograd.function.FunctionCtx):
    def __init__(self, arguments: int) -> None:
        self.needs_input_grad = (False,) * arguments

    def mark_dirty(self, *_: Any) -> None:
        raise RuntimeError("an autograd function with a symbolic function writes to its argument")


Elements = Callable[[torch.Tensor], torch.Tensor | None]


@contextmanager
def recorded(
    opset: int, *, only_domains: bool = False, elements: Elements | None = None
) -> Iterator[list[str]]:
    """Captures calls of this thread as calls of operators.

    Yields a list that names the symbolic functions that have no effect, and says why.

    Args:
        opset: The opset of the model.
        only_domains: Whether results must be those of operators of the user's domains, whose
            types ONNX does not tell.
        elements: Returns the elements of a tensor that follows from constants and weights alone,
            and None for others.
    """
    thread = threading.get_ident()

    def apply(cls: Any, *args: Any, **kwargs: Any) -> Any:
        plain = super(_upstream.SingleLevelFunction, cls).apply
        if threading.get_ident() != thread or not hasattr(cls, "symbolic"):
            return plain(*args, **kwargs)
        try:
            call, tensors = _call_of(cls, args, kwargs)
            graph, results = _added(call, opset, tensors, elements)
            if only_domains and any(k.startswith("onnx::") for k in graph.op_types(results)):
                raise _symbolics.SymbolicError(
                    "torch.export does not know the sizes of ONNX's operators; capture the "
                    'program with onnx_native.options(capture="native")'
                )
        except Exception as error:
            is_ours = isinstance(error, _symbolics.SymbolicError)
            warn(cls, str(error) if is_ours else f"{type(error).__name__}: {error}")
            return plain(*args, **kwargs)
        call.results = len(results)
        number = next(_numbers)
        _calls[number] = call
        made = _operator(call.results)(tensors, number)
        return (made,) if call.returns_tuple and call.results == 1 else made

    owner = _upstream.SingleLevelFunction
    outer = getattr(_unused, "messages", None)
    with (
        _undo.at_end(lambda: setattr(_unused, "messages", outer)),
        _replaced.attributes([(owner, "apply", classmethod(apply))]),
    ):
        _unused.messages = []
        yield _unused.messages


def _added(
    call: _Call, opset: int, tensors: Sequence[torch.Tensor], elements: Elements | None
) -> tuple[_symbolics.Graph, list[Any]]:
    """Runs the symbolic function of a call.

    Tensors are constants where ``parse_args`` asks for that. If the function fails otherwise, it
    may ask in its body: all tensors are constants that can be.
    """
    descriptors = getattr(call.function.symbolic, "_arg_descriptors", ())
    asked = [place for place in call.places if descriptors[place : place + 1] not in ((), ("v",))]

    def make_constant(places: Sequence[int]) -> bool:
        before = len(call.constants)
        for place, tensor in zip(call.places, tensors, strict=True):
            if place in places and place not in call.constants and elements is not None:
                known = elements(tensor)
                if known is not None:
                    with _not_captured():
                        call.constants[place] = known.detach()
        return len(call.constants) > before

    make_constant(asked)
    try:
        with _not_captured():
            return call.graph(opset, tensors)
    except Exception:
        if not make_constant(call.places):
            raise
    with _not_captured():
        return call.graph(opset, tensors)


def _call_of(
    cls: Any, args: Sequence[Any], kwargs: dict[str, Any]
) -> tuple[_Call, list[torch.Tensor]]:
    if kwargs:
        raise _symbolics.SymbolicError("the call has keyword arguments")
    if torch.is_autocast_enabled("cpu"):
        raise _symbolics.SymbolicError("the call is in a region of torch.autocast")
    places = [i for i, value in enumerate(args) if isinstance(value, torch.Tensor)]
    arguments = [None if i in places else value for i, value in enumerate(args)]
    for leaf in _upstream.pytree.tree_leaves(arguments):
        if isinstance(leaf, (torch.Tensor, torch.SymInt, torch.SymFloat, torch.SymBool)):
            raise _symbolics.SymbolicError("an argument is a list of tensors or a dynamic number")
    return _Call(cls, arguments, places), [args[i] for i in places]


def warn(function: Any, why: str) -> None:
    """Notes that the model computes what the forward of an autograd function computes."""
    # PyTorch describes the graph at the end of its messages.
    lines = why.partition("  [Caused by")[0].strip().splitlines() or [""]
    message = (
        f"The symbolic function of {function.__qualname__} is not used, and the model computes "
        f"what its forward computes: {lines[0]}"
    )
    messages = getattr(_unused, "messages", None)
    if messages is not None and message not in messages:
        messages.append(message)


@contextmanager
def _not_captured() -> Iterator[None]:
    """Hides what a symbolic function does from the captures."""
    with _upstream.disable_current_modes(), _upstream.unrecorded():
        yield


def _operator(results: int) -> Callable[..., Any]:
    with _registered:
        return _define(results)


@functools.cache
def _define(results: int) -> Callable[..., Any]:
    """Defines the operator for calls with this number of results, and its lowering."""
    name = f"{_OP}_{results}"
    types = ", ".join(["Tensor"] * results)
    torch.library.define(name, f"(Tensor[] inputs, int call) -> ({types})")

    def run(inputs: Sequence[torch.Tensor], call: int) -> Any:
        return _calls[call].run(inputs)

    @_context.one_at_a_time
    def lower(builder: Any, inputs: Sequence[Any], call: int) -> Any:
        known = _calls.get(call)
        if known is None:
            raise ValueError("the program was captured in another process")
        graph, values = known.graph(builder.opset, inputs)
        return tuple(graph.build(builder, values))

    torch.library.impl(name, "CompositeExplicitAutograd", run)
    torch.library.register_fake(name, run)
    _library.extension().register_lowering(name, lower)
    operator: Callable[..., Any] = getattr(torch.ops.onnx_native, name.partition("::")[2]).default
    return operator
