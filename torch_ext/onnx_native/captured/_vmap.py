"""Inlines torch.vmap: torch.export records only that a function is mapped."""

from __future__ import annotations

from typing import Any

import torch

from onnx_native.captured import _recurrent
from onnx_native.upstream import _upstream

# Views that may contain an element more than once; PyTorch sums the writes to it.
_REPEATING = {"expand", "expand_as", "broadcast_to", "broadcast_tensors", "meshgrid", "unfold"}
_REPEATING |= {"as_strided"}
# Copies or views; PyTorch decides by the sizes of the example.
_MAYBE_COPIES = {"contiguous", "reshape", "reshape_as", "flatten", "ravel"}


def unfold(program: torch.export.ExportedProgram) -> torch.export.ExportedProgram:
    """Returns the program with its mapped functions applied to whole batches."""
    mapped = any(
        getattr(node.target, "__module__", None) == _upstream.VMAP
        for module in program.graph_module.modules()
        if isinstance(module, torch.fx.GraphModule)
        for node in module.graph.nodes
        if node.op == "call_function"
    )
    if not mapped:
        return program
    for module in program.graph_module.modules():
        if isinstance(module, torch.fx.GraphModule):
            _check_writes(module.graph)
    # Traces the program again, which runs the mapping; an empty table keeps other decompositions to
    # a minimum.
    try:
        with _upstream.leaving_transforms(), _upstream.keeping_copies(), _recurrent.loops():
            return program.run_decompositions({})
    except Exception:
        # torch.export records derivatives (torch.func.grad) incorrectly; the lowering reports those
        # that it cannot express.
        return program


def _check_writes(graph: torch.fx.Graph) -> None:
    """Rejects writes whose aliasing PyTorch loses when it inlines mapped functions."""
    order = {node: i for i, node in enumerate(graph.nodes)}
    roots: dict[torch.fx.Node, torch.fx.Node] = {}
    # Calls of these two sets: those between a node and its root, and all calls on a root.
    through: dict[torch.fx.Node, frozenset[torch.fx.Node]] = {}
    lost: dict[torch.fx.Node, list[torch.fx.Node]] = {}
    repeating: set[torch.fx.Node] = set()
    for node in graph.nodes:
        tensors = [
            x for x in _upstream.pytree.tree_leaves(node.args) if isinstance(x, torch.fx.Node)
        ]
        if not tensors or node.op != "call_function":
            continue
        root = roots.get(tensors[0], tensors[0])
        seen = through.get(tensors[0], frozenset())
        if not isinstance(node.target, _upstream.OpOverload):
            roots[node], through[node] = root, seen  # an element of several results
            continue
        schema = _upstream.schema(node.target)
        name = schema.name.removeprefix("aten::")
        if any(result.alias_info is not None for result in schema.returns):
            roots[node], through[node] = root, seen
        if name in _REPEATING or (name in _MAYBE_COPIES and _depends_on_sizes(tensors[0])):
            roots[node], through[node] = root, seen | {node}
            if name in _REPEATING:
                repeating.add(node)
            lost.setdefault(root, []).append(node)
        for argument, value in zip(schema.arguments, node.args, strict=False):
            if not argument.is_write or not isinstance(value, torch.fx.Node):
                continue
            family = roots.get(value, value)
            others = [n for n in (*roots, family) if roots.get(n, n) is family]
            for call in lost.get(family, ()):
                inside = call in through.get(value, ())
                repeats = call in repeating
                if repeats and not inside:
                    continue  # PyTorch recreates the view from the new base
                stale = [
                    n
                    for n in others
                    if n not in (node, value)
                    and (repeats or (call in through.get(n, ())) != inside)
                    and (n.op == "placeholder" or any(order[u] > order[node] for u in n.users))
                ]
                if stale:
                    _fail(node, call)


def _fail(write: torch.fx.Node, call: torch.fx.Node) -> None:
    raise _upstream.ConversionError(
        "Failed to convert the exported program to an ONNX model.\n"
        f"In a program with torch.vmap, {write.target} writes to memory that the result of "
        f"{call.target} aliases or copies; write to a clone() instead.\n"
        f"{write.meta.get('stack_trace', '')}"
    )


def _depends_on_sizes(node: torch.fx.Node) -> bool:
    """Returns whether the tensor could be contiguous at other sizes but not in the example."""
    value: Any = node.meta.get("val")
    if not isinstance(value, torch.Tensor):
        return False
    if all(isinstance(size, int) for size in value.shape):
        return False
    packed: list[Any] = [1]
    for size in reversed(value.shape[1:]):
        packed.insert(0, packed[0] * size)
    return [str(stride) for stride in value.stride()] != [str(stride) for stride in packed]
