"""The parameters that a program of torch.fx writes to, found without a run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from onnx_native.upstream import _upstream


def written_parameters(module: torch.nn.Module, graph: torch.fx.Graph) -> set[str]:
    """Returns the names of the parameters that a graph of a module writes to."""
    modules = dict(module.named_modules())
    parameters = dict(module.named_parameters(remove_duplicate=False))
    sources: dict[torch.fx.Node, set[str]] = {}  # the parameters that a value may share memory with
    written: set[str] = set()
    for node in graph.nodes:
        if node.op == "get_attr" and node.target in parameters:
            sources[node] = {node.target}
        if node.op != "call_function":
            continue
        if isinstance(node.target, _upstream.OpOverload):
            shared, changed = _aliases(node)
        else:
            shared = node.all_input_nodes
            changed = shared if any(map(_writes, _graphs(node, modules))) else []
        for other in changed:
            written |= sources.get(other, set())
        found = set().union(*(sources.get(other, set()) for other in shared))
        if found:
            sources[node] = found
    return written


def _aliases(node: torch.fx.Node) -> tuple[list[torch.fx.Node], list[torch.fx.Node]]:
    """Returns the arguments that share memory with results, and those that the call writes to."""
    arguments = _upstream.schema(node.target).arguments
    values = {a.name: v for a, v in zip(arguments, node.args, strict=False)} | node.kwargs
    shared: list[torch.fx.Node] = []
    changed: list[torch.fx.Node] = []
    for argument in arguments:
        if argument.alias_info is None:
            continue
        leaves = _upstream.pytree.tree_leaves(values.get(argument.name))
        nodes = [leaf for leaf in leaves if isinstance(leaf, torch.fx.Node)]
        shared += nodes
        changed += nodes if argument.alias_info.is_write else []
    return shared, changed


def _graphs(node: torch.fx.Node, modules: dict[str, Any]) -> Iterator[torch.fx.Graph]:
    """Yields the graphs that a higher-order operator runs, also those inside of them."""
    for inner in node.all_input_nodes:
        module = modules.get(str(inner.target)) if inner.op == "get_attr" else None
        for part in module.modules() if module is not None else ():
            if isinstance(part, torch.fx.GraphModule):
                yield part.graph


def _writes(graph: torch.fx.Graph) -> bool:
    return any(
        isinstance(node.target, _upstream.OpOverload) and _upstream.schema(node.target).is_mutable
        for node in graph.nodes
    )
