"""Writes docs/operators.md from the op table and its test table.

PYTHONPATH=build/python:test/python python -m ops.document
"""

from __future__ import annotations

import collections
import pathlib
from collections.abc import Sequence

import onnx_native
import torch

from ops.limits import LEFT_OUT, LIMITS, ONLY_IN_TORCHSCRIPT
from ops.row import DTYPES, OLDEST_OPSET, Row
from ops.rows import FAMILIES

PATH = pathlib.Path(__file__).parents[3] / "docs" / "operators.md"

HEADER = """\
# Operators

Every entry of the op table: {keys} lowerings of {operators} operators. This page is written by
`python -m ops.document` (`make operators`) from the test table in `test/python/ops/rows`, and a
test fails when it is out of date.

Each entry was exported, passed `onnx.checker` in full and gave eager PyTorch's numbers in ONNX
Runtime for at least one sample in each of the dtypes shown, and again with a dynamic dimension at
a second size. Dtypes that are not shown mostly work as well. Opsets are {oldest} to the newest
unless said otherwise; from 12 on, what an older opset can express is, and the rest is an error
that names the opset. `@complex` marks entries for complex tensors, which are real ones with a
last axis of 2 in ONNX; `@quantized` those for quantised tensors.

In-place and `out=` variants are not listed: they are turned into the functional operators. An
operator that is not listed is exported by one of two safety nets, if it can: PyTorch's
decomposition of that one operator, or the function of PyTorch's ONNX library for it.
`program.export_report["fallbacks"]` says which operators needed one;
`onnx_native.fallbacks(False)` or `ONNX_NATIVE_FALLBACKS=0` switches them off. What neither knows
is an error that lists all such operators: see [custom operators](custom-ops.md).

## Not expressible

| operator | reason |
| --- | --- |
"""


def dtype_names(row: Row) -> set[str]:
    """The dtypes of a row's samples."""
    names = {test for test in row.tests() if test in DTYPES}
    for case in row.cases:
        names |= {str(tensor.dtype).removeprefix("torch.") for tensor in case.inputs}
    return names


# As torch writes them shortly.
ORDER = {
    str(dtype).removeprefix("torch."): short
    for dtype, short in (
        (torch.float32, "f32"),
        (torch.float64, "f64"),
        (torch.float16, "f16"),
        (torch.bfloat16, "bf16"),
        (torch.complex64, "c64"),
        (torch.complex128, "c128"),
        (torch.complex32, "c32"),
        (torch.int64, "i64"),
        (torch.int32, "i32"),
        (torch.int16, "i16"),
        (torch.int8, "i8"),
        (torch.uint8, "u8"),
        (torch.bool, "bool"),
    )
}


def family_table(rows: Sequence[Row]) -> list[str]:
    """One line per key of a family's rows."""
    dtypes: dict[str, set[str]] = collections.defaultdict(set)
    lowest: dict[str, int] = {}
    for row in rows:
        for key in row.all_keys:
            dtypes[key] |= dtype_names(row)
            lowest[key] = min(row.opset, lowest.get(key, row.opset))
    lines = ["| operator | dtypes | opset | limits |", "| --- | --- | --- | --- |"]
    for key in sorted(dtypes):
        shown = " ".join(short for name, short in ORDER.items() if name in dtypes[key])
        opset = "" if lowest[key] == OLDEST_OPSET else f"{lowest[key]}+"
        lines.append(f"| `{key}` | {shown} | {opset} | {LIMITS.get(key, '')} |")
    return lines


def document() -> str:
    """The whole page."""
    keys = onnx_native._C.table_keys()
    text = HEADER.format(keys=len(keys), operators=len({op for op, _ in keys}), oldest=OLDEST_OPSET)
    lines = [f"| {operator} | {reason} |" for operator, reason in LEFT_OUT.items()]
    for family, rows in FAMILIES.items():
        lines += ["", f"## {family.replace('_', ' ').capitalize()}", "", *family_table(rows)]
    lines += ["", "## Only in TorchScript", "", "| operator | tests |", "| --- | --- |"]
    lines += [f"| `{key}` | {tests} |" for key, tests in sorted(ONLY_IN_TORCHSCRIPT.items())]
    return text + "\n".join(lines) + "\n"


if __name__ == "__main__":
    torch.ops.load_library(onnx_native.library_path())
    PATH.write_text(document(), encoding="utf-8")
