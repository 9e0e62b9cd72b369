"""Finds what asks for devices in TorchScript programs, which are read as programs of the CPU."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import torch

# What answers with a device, or says what it is.
_ANSWERS = ("prim::type", "aten::get_device")
_IS = "cpu cuda ipu maia meta mps mtia vulkan xla xpu hpu".split()
# What takes a device for something else than a place for its result.
_USES = ("aten::eq", "aten::ne", "aten::str", "aten::format", "aten::__is__", "aten::__isnot__")


def question(script: Any, arguments: Iterable[Any]) -> str | None:
    """Returns why a program on another device may decide differently from its model."""
    device = _other_device(script, arguments)
    if device is None:
        return None
    for node in _asking(script.inlined_graph):
        return (
            f"the module is on the device {device}, and it decides by the device of a tensor "
            f"({node.kind()}{_line(node)}); TorchScript is read as a program of the CPU: move "
            "the module and its inputs there, or export the torch.nn.Module"
        )
    return None


def _other_device(script: Any, arguments: Iterable[Any]) -> torch.device | None:
    state = script.state_dict().values() if isinstance(script, torch.nn.Module) else ()
    for tensor in (*state, *arguments):
        if isinstance(tensor, torch.Tensor) and tensor.device.type not in ("cpu", "meta"):
            return tensor.device
    return None


def _asking(graph: Any) -> Iterator[Any]:
    for kind in (*_ANSWERS, *(f"{space}::is_{name}" for space in ("prim", "aten") for name in _IS)):
        yield from graph.findAllNodes(kind, recurse=True)
    for node in graph.findAllNodes("prim::device", recurse=True):
        for use in node.output().uses():
            if not use.user.kind().startswith("aten::") or use.user.kind() in _USES:
                yield use.user


def _line(node: Any) -> str:
    lines = [line for line in node.sourceRange().splitlines() if ", line " in line]
    return f", {lines[0].strip()}" if lines else ""
