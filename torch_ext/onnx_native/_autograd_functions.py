"""Autograd functions that have a symbolic function: a call becomes the nodes that it adds.

While a program is captured, such a call is a call of an operator of this package. The operator
computes what the autograd function computes, and its lowering runs the symbolic function.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch

from onnx_native import _context, _library, _replaced, _symbolics, _upstream

_OP = "onnx_native::autograd_function"
_numbers = itertools.count()
_calls: dict[int, _Call] = {}
_registered = threading.Lock()


@dataclasses.dataclass
class _Call:
    """A call of an autograd function.

    Attributes:
        function: The class.
        arguments: The arguments, with None in the places of tensors.
        places: The places of the tensors.
        results: The number of results of the symbolic function.
        returns_tuple: Whether the autograd function returns a tuple; known once it has run.
    """

    function: Any
    arguments: list[Any]
    places: list[int]
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
        tensors = [graph.tensor(value.dtype, value.shape, value) for value in values]
        return graph, graph.call(self.function.symbolic, self.filled(tensors))


class _Context(torch.autograd.function.FunctionCtx):
    def __init__(self, arguments: int) -> None:
        self.needs_input_grad = (False,) * arguments

    def mark_dirty(self, *_: Any) -> None:
        raise RuntimeError("an autograd function with a symbolic function writes to its argument")


@contextmanager
def recorded(opset: int, *, only_domains: bool = False) -> Iterator[None]:
    """Captures calls of this thread as calls of operators.

    Args:
        opset: The opset of the model.
        only_domains: Whether results must be those of operators of the user's domains, whose
            types ONNX does not tell.
    """
    thread = threading.get_ident()

    def apply(cls: Any, *args: Any, **kwargs: Any) -> Any:
        plain = super(_upstream.SingleLevelFunction, cls).apply
        if threading.get_ident() != thread or not hasattr(cls, "symbolic"):
            return plain(*args, **kwargs)
        try:
            call, tensors = _call_of(cls, args, kwargs)
            with _not_captured():
                graph, results = call.graph(opset, tensors)
            if only_domains and any(k.startswith("onnx::") for k in graph.op_types(results)):
                raise _symbolics.SymbolicError(
                    "torch.export does not know the sizes of ONNX's operators; capture the "
                    'program with onnx_native.options(capture="native")'
                )
        except Exception as error:
            warn(cls, str(error) if isinstance(error, _symbolics.SymbolicError) else repr(error))
            return plain(*args, **kwargs)
        call.results = len(results)
        number = next(_numbers)
        _calls[number] = call
        made = _operator(call.results)(tensors, number)
        return (made,) if call.returns_tuple and call.results == 1 else made

    owner = _upstream.SingleLevelFunction
    with _replaced.attributes([(owner, "apply", classmethod(apply))]):
        yield


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
    """Says that the model computes what the forward of an autograd function computes."""
    warnings.warn(
        f"The symbolic function of {function.__qualname__} is not used, and the model computes "
        f"what its forward computes: {why}",
        torch.onnx.errors.OnnxExporterWarning,
        stacklevel=4,
    )


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
