"""Measures how values differ, and presents a comparison: as text, a data frame, and a file."""

from __future__ import annotations

import dataclasses
import json
import math
import os
from collections.abc import Sequence
from typing import Any

import torch

# The largest difference that rounding explains, relative to a tensor's elements.
_ROUNDING = {
    torch.float64: 1e-6,
    torch.float32: 1e-4,
    torch.float16: 1e-2,
    torch.bfloat16: 5e-2,
    torch.complex64: 1e-4,
    torch.complex128: 1e-6,
}
_ROWS = 40  # of the text of a comparison
_COLORS = (("#d7f0d7", 1.0), ("#ffd9a0", 10.0), ("#f4a6a0", 1e30))  # up to these tolerances


@dataclasses.dataclass(frozen=True)
class Difference:
    """How a value differs from eager's.

    Attributes:
        absolute: The largest absolute difference of elements.
        relative: The largest relative difference of elements.
        tolerances: The largest difference as a multiple of what rounding explains.
        note: What differs besides elements.
    """

    absolute: float
    relative: float
    tolerances: float
    note: str = ""

    @property
    def is_significant(self) -> bool:
        return self.tolerances > 1


@dataclasses.dataclass(frozen=True)
class Row:
    """A value of the program and its counterpart in the model.

    Attributes:
        name: The value's name in the program.
        status: ``agrees``; ``begins``: its own computation is wrong; ``follows``: it differs
            because its inputs do; ``random``; ``fused``: the model does not have it; ``unused``.
        operator: The ATen operator.
        value: The name in the model, or None.
        node: The model's node that computes it, or None.
        onnx_operator: The operator of that node, or None.
        source: The user's line, ``model.py:12``.
        module: The path of the module, and its class.
        includes: Rows of fused values that the model's node computes too.
        shape: Eager's shape.
        dtype: Eager's dtype.
        own: The difference from eager's result for the model's inputs of this node.
        total: The difference from eager's value, with what earlier nodes contribute.
    """

    name: str
    status: str
    operator: str
    value: str | None = None
    node: str | None = None
    onnx_operator: str | None = None
    source: str = ""
    module: str = ""
    includes: tuple[Row, ...] = ()
    shape: tuple[int, ...] = ()
    dtype: str = ""
    own: Difference | None = None
    total: Difference | None = None


class Comparison(Sequence[Row]):
    """The rows of a comparison, in the program's order.

    Attributes:
        first: The first row where a difference begins, or None.
        origins: All rows where a difference begins.
    """

    def __init__(self, rows: Sequence[Row], graph: str) -> None:
        self._rows = list(rows)
        self._graph = graph
        self.origins = [row for row in rows if row.status == "begins"]
        self.first = self.origins[0] if self.origins else None

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, index: Any) -> Any:
        return self._rows[index]

    def __str__(self) -> str:
        """Returns the origins of differences and the rows around the first."""
        lines = [*map(_described, self.origins)] or [self._agreement()]
        at = self._rows.index(self.first) if self.first is not None else 0
        start = max(0, min(at - _ROWS // 4, len(self) - _ROWS))
        shown = self._rows[start : start + _ROWS]
        lines += ["", table(shown)]
        if len(shown) < len(self):
            lines.append(f"({len(shown)} of {len(self)} values; table() has all)")
        return "\n".join(lines)

    __repr__ = __str__

    def _agreement(self) -> str:
        compared = [row for row in self._rows if row.own is not None]
        lacking = len(self) - len(compared)
        largest = max((row.total.absolute for row in compared if row.total), default=0.0)
        return (
            f"All {len(compared)} compared values agree; the largest absolute difference is "
            f"{largest:.3g}. {lacking} values have no counterpart."
        )

    def table(self) -> str:
        """Returns all rows as text."""
        return table(self._rows)

    def to_dataframe(self) -> Any:
        """Returns the rows as a pandas DataFrame.

        Raises:
            ImportError: pandas is not installed.
        """
        try:
            import pandas
        except ImportError as error:
            raise ImportError(
                "to_dataframe() needs the package pandas; install it (pip install pandas), or use "
                "records(), which has the same rows as dictionaries"
            ) from error
        return pandas.DataFrame.from_records(self.records())

    def records(self) -> list[dict[str, Any]]:
        """Returns the rows as flat dictionaries."""
        records = []
        for row in self._rows:
            record = {field.name: getattr(row, field.name) for field in dataclasses.fields(row)}
            record["includes"] = ", ".join(inner.name for inner in row.includes)
            for kind in ("own", "total"):
                found = record.pop(kind)
                for field in ("absolute", "relative", "tolerances", "note"):
                    record[f"{kind}_{field}"] = None if found is None else getattr(found, field)
            records.append(record)
        return records

    def save(self, path: str | os.PathLike) -> None:
        """Writes node data for Google's model-explorer, which colors the model's nodes by it.

        A node's number is its own difference as a multiple of what rounding explains.
        """
        results: dict[str, dict[str, float]] = {}
        for row in self._rows:
            if row.own is not None and row.node is not None:
                number = min(row.own.tolerances, _COLORS[-1][1])
                before = results.get(row.node, {"value": 0.0})["value"]
                results[row.node] = {"value": max(before, number)}
        thresholds = [{"value": limit, "bgColor": color} for color, limit in _COLORS]
        data = {self._graph: {"results": results, "thresholds": thresholds}}
        with open(path, "w", encoding="utf-8") as file:
            json.dump(data, file, indent=2, allow_nan=False)


def is_value(leaf: Any) -> bool:
    """Returns whether a leaf of a program's results is a tensor or a number: a model returns it."""
    return isinstance(leaf, (torch.Tensor, bool, int, float))


def measure(
    expected: Any,
    actual: torch.Tensor,
    rtol: float | None = None,
    half: torch.dtype | None = None,
) -> Difference:
    """Returns how a value of the model differs from eager's.

    Args:
        expected: Eager's tensor or number.
        actual: The model's tensor.
        rtol: The difference that counts as rounding, relative to an element and to the root mean
            square of all. None: by the dtype.
        half: The dtype in which the model computes what eager does in float32, or None.
    """
    if not isinstance(expected, torch.Tensor):
        return _of_number(expected, actual)
    expected, actual = expected.detach().cpu(), actual.detach().cpu()
    if expected.is_complex() and not actual.is_complex():
        expected = torch.view_as_real(expected)
    is_lowered = half is not None and expected.dtype is torch.float32
    if is_lowered and actual.dtype is half:
        actual = actual.float()
    if expected.dtype != actual.dtype and not expected.is_complex():
        return Difference(math.inf, math.inf, math.inf, f"is {actual.dtype}")
    if expected.shape != actual.shape:
        return Difference(math.inf, math.inf, math.inf, f"has shape {list(actual.shape)}")
    if not expected.numel():
        return Difference(0.0, 0.0, 0.0)
    rounded = half if half is not None and is_lowered else expected.dtype
    limit = rtol if rtol is not None else _ROUNDING.get(rounded, 0.0)
    if not expected.is_floating_point() and not expected.is_complex():
        limit = 0.0
        same = actual == expected
        if same.all():
            return Difference(0.0, 0.0, 0.0)
    wide = torch.complex128 if expected.is_complex() else torch.float64
    expected, actual = expected.to(wide), actual.to(wide)
    same = (expected == actual) | (expected.isnan() & actual.isnan())
    absolute = (actual - expected).abs().masked_fill(same, 0.0).nan_to_num(math.inf, math.inf)
    size = expected.abs().nan_to_num(0.0, 0.0, 0.0)
    relative = absolute / (size + 1e-7)
    allowed = limit * (size + size.square().mean().sqrt()) + torch.finfo(torch.float64).tiny
    worst = (absolute / allowed).max().item()
    return Difference(absolute.max().item(), relative.max().item(), worst)


def _of_number(expected: Any, actual: torch.Tensor) -> Difference:
    if actual.numel() != 1:
        return Difference(math.inf, math.inf, math.inf, f"has shape {list(actual.shape)}")
    kind = torch.float64 if isinstance(expected, float) else torch.int64
    limit = _ROUNDING[torch.float32] if isinstance(expected, float) else None
    return measure(torch.tensor(expected, dtype=kind), actual.reshape(()).to(kind), limit)


def table(rows: Sequence[Row]) -> str:
    """Returns rows as aligned text."""
    heads = ("value", "operator", "onnx", "source", "module", "own diff", "total diff", "")
    lines = [
        (
            row.name,
            row.operator,
            row.onnx_operator or "-",
            row.source,
            row.module,
            _number(row.own),
            _number(row.total),
            row.status,
        )
        for row in rows
    ]
    return aligned([heads, *lines])


def aligned(lines: Sequence[Sequence[str]]) -> str:
    """Returns columns of text, the first line as their heads."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    texts = [
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    ]
    return "\n".join([texts[0], "  ".join("-" * width for width in widths), *texts[1:]])


def _number(difference: Difference | None) -> str:
    if difference is None:
        return "-"
    return difference.note or f"{difference.absolute:.2e}"


def _described(row: Row) -> str:
    assert row.own is not None
    what = row.own.note or (
        f"differs by up to {row.own.absolute:.3g} (relative: {row.own.relative:.3g})"
    )
    lines = [f"A difference begins at {row.name}: {row.operator} {what}"]
    lines.append(f"  at {row.source or 'an unknown line'}, in {row.module or 'the program'}")
    lines.append(f"  ONNX node {row.node} ({row.onnx_operator})")
    for inner in row.includes:
        lines.append(f"  the node also computes {inner.name}: {inner.operator} at {inner.source}")
    return "\n".join(lines)
