"""Initializers of a model in onnx_ir, and what they store of the module's weights."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    import onnx_ir as ir

    from onnx_native._C import Program, RowRange, StoredWeight, WeightPart


@dataclasses.dataclass(frozen=True)
class Initializer:
    """An initializer that stores weights of the module, or parts of them.

    Attributes:
        value: The initializer.
        layout: What it stores.
    """

    value: ir.Value
    layout: StoredWeight

    def with_weight(self, name: str, tensor: torch.Tensor) -> torch.Tensor | None:
        """Returns the elements for the new value of a weight; None if others are not known."""
        parts, shape = self.layout.parts, self.value.shape
        assert shape is not None
        if len(parts) == 1:
            new = _rows_of(tensor, parts[0])
            return (new.mT if self.layout.is_transposed else new).reshape(shape.numpy())
        if self.value.const_value is None:
            return None
        new = torch.tensor(self.value.const_value.numpy())
        sizes = [_count(part.rows[-1]) for part in parts]
        for part, stored in zip(parts, new.view(sum(sizes), -1).split(sizes), strict=True):
            if part.weight == name:
                stored.copy_(_rows_of(tensor.detach(), part).reshape(stored.shape))
        return new


def _rows_of(tensor: torch.Tensor, part: WeightPart) -> torch.Tensor:
    for rows in part.rows:
        tensor = tensor[rows.start] if rows.end is None else tensor[rows.start : rows.end]
    return tensor


def _count(rows: RowRange) -> int:
    assert rows.end is not None
    return rows.end - rows.start


def of_model(model: ir.Model, native: Program) -> dict[str, list[Initializer]]:
    """Returns the initializers by the weights that they store."""
    found: dict[str, list[Initializer]] = {}
    for graph in model.graphs():
        for name, value in graph.initializers.items():
            layout = native.weight_layout(name)
            for weight in dict.fromkeys(part.weight for part in layout.parts):
                found.setdefault(weight, []).append(Initializer(value, layout))
    return found
