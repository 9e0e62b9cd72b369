"""Gives the calls of a captured program the names that the native capture gave them.

The two captures number calls alike, except where one of them records calls that the other does not,
such as arithmetic on sizes. After such a call, `add_4` would be another value in the captured
program than in the model.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import torch

_CALL = re.compile(r"%(\S+) :.*? = call_function\[target=([^\]]*)\]\((.*)\)", re.DOTALL)
_NUMBERED = re.compile(r"(.*?)(?:_(\d+))?")
_REFERENCE = re.compile(r"%(\w+?)(?:_\d+)?\b")


_IN_PLACE = re.compile(r"_(\.\w+)?$")


class _Call(NamedTuple):
    name: str
    target: str
    module: str
    arguments: str  # without the numbers in names

    @property
    def base(self) -> str:
        match = _NUMBERED.fullmatch(self.name)
        return match[1] if match else self.name

    @property
    def number(self) -> int:
        match = _NUMBERED.fullmatch(self.name)
        return int(match[2] or 0) if match else 0


def rename(captured: torch.export.ExportedProgram, nodes: Iterable[Any]) -> None:
    """Renames the program's calls.

    Args:
        captured: The program.
        nodes: The nodes of the ModelProto's graph, with metadata.
    """
    theirs: dict[str, list[_Call]] = {}
    for node in captured.graph.nodes:
        modules = list((node.meta.get("nn_module_stack") or {}).values())
        call = _call(node.format_node() or "", modules[-1][0] if modules else "")
        if call is not None:
            theirs.setdefault(call.base, []).append(call)
    known = _recorded(nodes)
    names = {}
    for base, calls in known.items():
        names.update(_aligned(calls, theirs.get(base, [])))
    if all(old == new for old, new in names.items()):
        return
    given = set(names.values()) | {call.name for calls in known.values() for call in calls}
    for node in captured.graph.nodes:
        if node.op == "call_function" and node.name not in names and node.name in given:
            names[node.name] = _free(f"{node.name}_export", given)
    _apply(captured, names)


def _recorded(nodes: Iterable[Any]) -> dict[str, list[_Call]]:
    """Returns the calls that nodes of the model name in their metadata, in the order of numbers."""
    found: dict[str, _Call] = {}
    for node in nodes:
        metadata = {prop.key: prop.value for prop in node.metadata_props}
        text = metadata.get("pkg.torch.onnx.fx_node", "")
        scopes = ast.literal_eval(metadata.get("pkg.torch.onnx.name_scopes", "[]"))
        call = _call(text, scopes[-2] if len(scopes) > 1 else "")
        if call is None:
            continue
        found[call.name] = call
        for name in node.output:
            if name.startswith("getitem"):
                arguments = f"args = (%{call.base}, "
                found[name] = _Call(name, "operator.getitem", call.module, arguments)
    groups: dict[str, list[_Call]] = {}
    for call in sorted(found.values(), key=lambda call: call.number):
        groups.setdefault(call.base, []).append(call)
    return groups


def target_of(text: str) -> str | None:
    """Returns the functional operator of a call that torch.fx printed."""
    call = _call(text, "")
    return None if call is None else call.target


def _call(text: str, module: str) -> _Call | None:
    match = _CALL.match(text)
    if match is None:
        return None
    name, target, arguments = match.groups()
    # The metadata of the native capture names the functional operator.
    target = _IN_PLACE.sub(r"\1", target)
    return _Call(name, target, module, _REFERENCE.sub(r"%\1", arguments))


def _aligned(ours: list[_Call], theirs: list[_Call]) -> dict[str, str]:
    """Maps names of calls in the captured program to names in the model; both are in order."""
    names = {}
    start = offset = 0
    for call in ours:
        candidates = [
            (not other.arguments.startswith(call.arguments), abs(place - call.number - offset), i)
            for i, other in enumerate(theirs[start:], start)
            if (other.target, other.module) == (call.target, call.module)
            for place in [other.number]
        ]
        if not candidates:
            continue
        chosen = min(candidates)[-1]
        names[theirs[chosen].name] = call.name
        offset = theirs[chosen].number - call.number
        start = chosen + 1
    return names


def _free(name: str, taken: set[str]) -> str:
    while name in taken:
        name += "_"
    taken.add(name)
    return name


def _apply(captured: torch.export.ExportedProgram, names: Mapping[str, str]) -> None:
    for node in captured.graph.nodes:
        node.name = names.get(node.name, node.name)
    for spec in captured.graph_signature.output_specs:
        if isinstance(getattr(spec.arg, "name", None), str):
            spec.arg.name = names.get(spec.arg.name, spec.arg.name)
    captured.graph_module.recompile()
