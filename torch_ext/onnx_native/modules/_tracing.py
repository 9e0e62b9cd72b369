"""Programs that call ``torch.jit.trace``, or functions that it or ``torch.jit.script`` made.

PyTorch exports the Python function behind such a function. The values that it uses, and what it
does outside of TorchScript, may differ from what was traced or compiled.
"""

from __future__ import annotations

import functools
import re
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch

from onnx_native import _library, _replaced
from onnx_native.modules import _generators
from onnx_native.upstream import _flags, _upstream

if TYPE_CHECKING:
    from onnx_native._C import Capture


@contextmanager
def as_in_eager() -> Iterator[None]:
    """Runs traced and scripted functions themselves in a state in which PyTorch exports."""
    plain: Any = torch.jit.ScriptFunction.__call__

    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        return _itself(plain, self, args, kwargs)

    with _replaced.attributes([(torch.jit.ScriptFunction, "__call__", call)]):
        yield


@contextmanager
def watched(native: Capture) -> Iterator[None]:
    """Traces functions on random elements in place of recorded ones, and records what they do."""
    plain_trace, plain_call = torch.jit.trace, torch.jit.ScriptFunction.__call__
    is_recorded = _library.extension().is_recorded
    thread = threading.get_ident()

    def number(size: Any, factor: int) -> Any:
        if isinstance(size, int):
            return size
        found = native.sizes.example(size)
        if found is None:
            native.note_refusal("a traced or scripted function of a size that depends on data")
            return size
        return found * factor

    def elements(example: Any, factor: int = 1) -> Any:
        if isinstance(example, torch.SymInt):
            return number(example, factor)
        if not isinstance(example, torch.Tensor):
            return example
        if not is_recorded(example) or not native.varies(example):
            return native.elements(example, False).clone()
        sizes = [number(size, factor) for size in example.shape]
        strides = [number(stride, 1) for stride in example.stride()]
        order = sorted(range(len(sizes)), key=lambda axis: -strides[axis])  # the outermost first
        kind = (
            example.dtype if example.dtype.is_floating_point or example.dtype.is_complex else None
        )
        made = torch.randn([sizes[axis] for axis in order], dtype=kind)
        made = (made if kind else made > 0).to(example.dtype)
        made = made.permute([order.index(axis) for axis in range(len(sizes))])
        if factor == 1 and [*made.stride()] != strides:
            native.note_refusal(
                "a traced or scripted function of a tensor that is not dense in memory"
            )
        return made

    def trace(func: Any, example_inputs: Any = None, *args: Any, **kwargs: Any) -> Any:
        leaves = _upstream.pytree.tree_leaves(example_inputs)
        if threading.get_ident() != thread or not any(map(is_recorded, leaves)):
            return plain_trace(func, example_inputs, *args, **kwargs)
        if args or kwargs:
            native.note_refusal("torch.jit.trace with options")
        if torch.is_autocast_enabled("cpu"):
            native.note_refusal("torch.jit.trace under autocast")
        with _upstream.unrecorded(), torch.random.fork_rng(devices=[]):
            # Traces do not tell what they take from elements and dynamic sizes: two of them do.
            examples = [
                _upstream.pytree.tree_map(
                    functools.partial(elements, factor=factor), example_inputs
                )
                for factor in (1, 2)
            ]
        first, second = _in_a_thread(plain_trace, func, examples)
        if not _are_same(first.inlined_graph, second.inlined_graph):
            native.note_refusal("torch.jit.trace of a function whose traces differ")
        return first

    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        leaves = _upstream.pytree.tree_leaves((args, kwargs))
        if threading.get_ident() != thread or not any(map(is_recorded, leaves)):
            return _itself(plain_call, self, args, kwargs)
        graph = self.inlined_graph
        if not any(map(_computes_numbers, _nodes(graph))):
            return _itself(plain_call, self, args, kwargs)
        # TorchScript's interpreter knows no symbolic sizes.
        if vars(self).get("__name__") != "ScriptFunction":
            return _Interpreter(native, graph).results(_positional(self, args, kwargs))
        with _upstream.unrecorded(), torch.random.fork_rng(devices=[]):
            values = _upstream.pytree.tree_map(elements, (args, kwargs))
            if not _is_like_its_source(plain_call, self, *values):
                native.note_refusal("a scripted function computes something else than its source")
        return plain_call(self, *args, **kwargs)

    changed = [(torch.jit, "trace", trace), (torch.jit.ScriptFunction, "__call__", call)]
    with _replaced.attributes(changed):
        yield


def _in_a_thread(trace: Any, function: Any, examples: list[Any]) -> list[Any]:
    """Traces a function on each example, outside of the recording and without its replacements."""
    found: list[Any] = []

    def run() -> None:
        with torch.no_grad(), warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            try:
                found.extend(trace(function, each, check_trace=False) for each in examples)
            except Exception as error:
                found[:] = [error]
        doubts = (each.message for each in said if each.category is torch.jit.TracerWarning)
        found[:] = [*doubts, *found]

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    if isinstance(found[0], Exception):
        raise found[0]
    return found


def _calls(graph: Any) -> list[str]:
    """The text of each node of a graph, without types and numbers of classes."""
    text = re.sub(r"___torch_mangle_\d+\.", "", str(graph))
    return re.findall(r"(?: = |return )(.*)", text)


def _are_same(first: Any, second: Any) -> bool:
    """Whether two graphs are the same, with the elements of their constants."""
    texts = [_calls(graph) for graph in (first, second)]
    constants = [
        [node.output().toIValue() for node in _nodes(graph) if node.kind() == "prim::Constant"]
        for graph in (first, second)
    ]
    return texts[0] == texts[1] and all(
        torch.equal(one, other)
        for one, other in zip(*constants, strict=True)
        if isinstance(one, torch.Tensor)
    )


def _itself(plain: Any, function: Any, args: Any, kwargs: Any) -> Any:
    """Calls a function with TorchScript's interpreter."""
    with _flags.answers(is_exporting=False):
        return plain(function, *args, **kwargs)


def _is_like_its_source(plain: Any, function: Any, args: Any, kwargs: Any) -> bool:
    """Whether a function and the Python function behind it compute the same."""
    found = []
    for call in (_itself, lambda plain, function, args, kwargs: plain(function, *args, **kwargs)):
        values = _upstream.pytree.tree_map(_copied, (args, kwargs))
        try:
            with _generators.seeded():
                found.append((call(plain, function, *values), values))
        except Exception:
            return False
    try:
        torch.testing.assert_close(*found, equal_nan=True)
    except (AssertionError, TypeError):
        return False
    return True


def _copied(value: Any) -> Any:
    return value.clone() if isinstance(value, torch.Tensor) else value


def _positional(function: Any, args: Any, kwargs: Any) -> list[Any]:
    """The arguments of a traced function, which has no defaults."""
    names = [argument.name for argument in function.schema.arguments]
    return [*args, *(kwargs[name] for name in names[len(args) :])]


def _nodes(block: Any) -> Iterator[Any]:
    for node in block.nodes():
        yield node
        for inner in node.blocks():
            yield from _nodes(inner)


def _computes_numbers(node: Any) -> bool:
    is_call = node.kind().startswith("aten::")
    return is_call and any("Tensor" not in each.type().annotation_str for each in node.outputs())


class _Interpreter:
    """Runs the graph of a trace, which has no branches, with symbolic sizes."""

    def __init__(self, native: Capture, graph: Any) -> None:
        self._native = native
        self._graph = graph

    def results(self, inputs: list[Any]) -> Any:
        """Returns what the graph returns."""
        values = dict(
            zip((value.debugName() for value in self._graph.inputs()), inputs, strict=True)
        )
        for node in self._graph.nodes():
            operands = [values[value.debugName()] for value in node.inputs()]
            names = [value.debugName() for value in node.outputs()]
            result = self._result(node, operands)
            unpacks = node.kind() in ("prim::ListUnpack", "prim::TupleUnpack") or len(names) != 1
            values.update(zip(names, result if unpacks else [result], strict=True))
        found = [values[value.debugName()] for value in self._graph.outputs()]
        return found[0] if len(found) == 1 else tuple(found)

    def _result(self, node: Any, operands: list[Any]) -> Any:
        kind = node.kind()
        match kind:
            case "prim::Constant":
                return node.output().toIValue()
            case "prim::ListConstruct":
                return operands
            case "prim::TupleConstruct" | "prim::ListUnpack" | "prim::TupleUnpack":
                return tuple(operands if kind == "prim::TupleConstruct" else operands[0])
            case "prim::NumToTensor" if isinstance(operands[0], (int, torch.SymInt)):
                return torch.tensor(operands[0])
            case "aten::size":
                return operands[0].shape[operands[1]] if operands[1:] else [*operands[0].shape]
            case "aten::numel":
                return operands[0].numel()
            case "aten::dim":
                return operands[0].dim()
            case "aten::Int" | "aten::ScalarImplicit" if operands[0].dtype is torch.int64:
                return operands[0].item()
        if not kind.startswith("aten::") or _computes_numbers(node):
            self._native.note_refusal(f"a traced function calls {kind}")
        name, _, overload = node.schema().partition("(")[0].removeprefix("aten::").partition(".")
        function = getattr(getattr(torch.ops.aten, name), overload or "default")
        arguments = list(zip(_upstream.schema(function).arguments, operands, strict=True))
        named = {argument.name: value for argument, value in arguments if argument.kwarg_only}
        return function(*operands[: len(operands) - len(named)], **named)
