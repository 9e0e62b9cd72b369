"""What a model was exported from, and how that was captured."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from onnx_native.modules import _eager
from onnx_native.replay import _replay


@dataclasses.dataclass
class Origin:
    """The program that a model was exported from, and the form of its arguments.

    Attributes:
        exported: The program as torch.export captured it; None if it did not.
        capture: Captures the program with torch.export, on demand.
        eager: The model in eager, if torch.export did not capture it.
        recorded: Records the program again, if torch.export did not capture it.
        flatten: Maps (args, kwargs) to the inputs, if torch.export did not capture the program.
        arrange: Arranges (args, kwargs) of a call as the export had them; None: they are.
        tied: The names under which the program holds tied weights, by their other names.
        reads: Positions of the inputs that the results follow from, by elements or dynamic sizes,
            if the program was recorded. The model may read a size from another input.
    """

    exported: torch.export.ExportedProgram | None = None
    capture: Callable[[], torch.export.ExportedProgram] | None = None
    eager: _eager.Eager | None = None
    recorded: Callable[[], _replay.Replay] | None = None
    flatten: Callable[[Any, Any], Sequence[Any]] | None = None
    arrange: Callable[[Any, Any], tuple[Any, Any]] | None = None
    tied: Mapping[str, str] = dataclasses.field(default_factory=dict)
    reads: Sequence[int] = ()


@dataclasses.dataclass(frozen=True)
class CaptureReport:
    """How a program was captured.

    Attributes:
        strategy: What captured it.
        seconds: How long that took.
        reason: Why the native capture did not.
        guards: Conditions on sizes that the program evaluates, and their source lines.
        dimensions: The dimension of an input that each symbol of the conditions names.
        rolled: The loops over a dynamic size that are scans: "steps" ("n - 1") and "source", the
            lines of the body.
        unrolled: The guards that say how many steps a loop has, which runs as often as for the
            example.
    """

    strategy: str | None
    seconds: float
    reason: str | None = None
    guards: Sequence[dict[str, str]] = ()
    dimensions: Mapping[str, str] = dataclasses.field(default_factory=dict)
    rolled: Sequence[dict[str, Any]] = ()
    unrolled: Sequence[str] = ()

    @property
    def name(self) -> str | None:
        """The strategy as torch.onnx.testing expects it: the name of PyTorch's first."""
        return "TorchExportNonStrictStrategy" if self.strategy == "native" else self.strategy

    def as_dict(self) -> dict[str, Any]:
        """Returns ``export_report["capture"]``."""
        return {
            "by": self.strategy if self.strategy in ("native", "TorchScript") else "torch.export",
            "reason": self.reason,
            "guards": list(self.guards),
            "dimensions": dict(self.dimensions),
            "rolled": list(self.rolled),
            "unrolled": list(self.unrolled),
        }


def of_captured(program: torch.export.ExportedProgram) -> Origin:
    """Returns the origin of a model of a program that torch.export captured."""
    return Origin(exported=program, tied=_tied_weights(program))


def _tied_weights(program: torch.export.ExportedProgram) -> dict[str, str]:
    """Maps each tied weight to the name under which the program holds its tensor."""
    signature = program.graph_signature
    inputs = signature.inputs_to_parameters | signature.inputs_to_buffers
    held = {
        inputs[node.name]: node
        for node in program.graph.nodes
        if node.op == "placeholder" and node.name in inputs and node.users
    }
    names: dict[int, str] = {}
    for name in held:
        tensor = program.state_dict.get(name)
        if tensor is not None:
            names.setdefault(id(tensor), name)
    return {
        name: names[id(tensor)]
        for name, tensor in program.state_dict.items()
        if name not in held and id(tensor) in names
    }
