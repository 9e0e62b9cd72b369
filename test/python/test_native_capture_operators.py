"""Samples of the operators' table through the native capture: right, or left to torch.export."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from models.recording import LeftToTorchExport, only_native
from ops import checking
from ops.captured import dynamic
from ops.row import Row
from ops.rows import ROWS

# 1 for all rows: ONNX_NATIVE_EACH_ROW=1
EACH = int(os.environ.get("ONNX_NATIVE_EACH_ROW", "5"))


def sampled() -> Iterator[tuple[Row, str]]:
    for row in ROWS[::EACH]:
        for test in row.tests():
            if test in ("float32", "cases", "dynamic") and test not in row.xfails:
                yield row, test


@pytest.mark.parametrize(
    ("row", "test"), sampled(), ids=lambda value: value.title if isinstance(value, Row) else value
)
def test_row(row: Row, test: str) -> None:
    if test == "dynamic":
        found = dynamic(row)
        assert found is not None
        case, grows, larger = found
        samples, inputs = [case], [case.inputs, larger]
    else:
        samples, grows, inputs = row.samples(test), [], []
    for case in samples:
        try:
            with only_native():
                program = checking.export(case, grows, max(20, row.opset))
        except LeftToTorchExport:
            continue
        running = checking.session(program)
        for values in inputs or [case.inputs]:
            checking.compare(row, running, case, values)
