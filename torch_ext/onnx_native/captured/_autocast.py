"""Custom operators in regions of torch.autocast, in programs that torch.export captures."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from onnx_native.captured import _specialized
from onnx_native.upstream import _upstream


def warnings_of(program: torch.export.ExportedProgram) -> list[str]:
    """Names the operators whose dtypes in eager torch.export does not know.

    In eager, autocast casts what an operator calls. torch.export runs the fake kernel instead.
    """
    found: dict[Any, str] = {}
    for node in _nodes(program.graph_module, False):
        op = node.target
        if isinstance(op, _upstream.OpOverload) and _may_hide_casts(op):
            found.setdefault(op, _specialized.line_of(node))
    return [
        f"{op.name()} is called in a region of torch.autocast ({line}). The model has the dtypes "
        "of its fake kernel; in eager, autocast casts what the operator calls. Register a rule by "
        "torch.library.register_autocast, or call it where autocast is disabled."
        for op, line in found.items()
    ]


def _nodes(module: torch.fx.GraphModule, enabled: bool) -> Iterator[torch.fx.Node]:
    """The calls in regions in which autocast is enabled."""
    for node in module.graph.nodes:
        if node.op != "call_function":
            continue
        if enabled:
            yield node
        inner = enabled
        if getattr(node.target, "__name__", "") == "wrap_with_autocast":
            inner = bool(node.args[2])
        for argument in _upstream.pytree.tree_leaves((node.args, node.kwargs)):
            if isinstance(argument, torch.fx.Node) and argument.op == "get_attr":
                region = getattr(module, str(argument.target), None)
                if isinstance(region, torch.fx.GraphModule):
                    yield from _nodes(region, inner)


def _may_hide_casts(op: Any) -> bool:
    name = op.name()

    def has(key: str) -> bool:
        found: bool = _upstream.has_kernel(name, key)
        return found

    if op.namespace in ("aten", "onnx_symbolic") or has("AutocastCPU"):
        return False
    return has("CPU") or has("Meta")
