"""Writes docs/operators.md from the op table and its test table.

PYTHONPATH=build/python:test/python python -m ops.document
"""

from __future__ import annotations

import collections
import pathlib
from collections.abc import Sequence

import onnx_native
import torch

from ops.limits import LEFT_OUT, LIMITS, ONLY_IN_NATIVE_CAPTURE, ONLY_IN_TORCHSCRIPT
from ops.row import DTYPES, OLDER_OPSET, Row
from ops.rows import FAMILIES

PATH = pathlib.Path(__file__).parents[3] / "docs" / "operators.md"

HEADER = """\
# Operators

This page lists every entry of the op table: {keys} lowerings of {operators} operators.
`make operators` (`python -m ops.document`) writes it from the test table in
`test/python/ops/rows`; a test fails if the page is out of date.

For each entry and each dtype shown, at least one sample was exported, passed the full check of
`onnx.checker`, and gave the same numbers in ONNX Runtime as in eager PyTorch; the same holds for
an export with a dynamic dimension, run at a second size. Most dtypes that are not shown work too.
Unless the page says otherwise, entries support opset {oldest} to the newest, and one sample runs
at both. Older opsets are supported where they can express the operator; otherwise the export is
an error that names the opset. `@complex` marks entries for complex tensors, which in ONNX are
real tensors with a last axis of 2. `@quantized` marks entries for quantized tensors.

In-place and `out=` variants are not listed, because the exporter functionalizes them. For an
operator that is not listed there are two fallbacks: PyTorch's decomposition of the operator, and
its function in PyTorch's ONNX library. `program.export_report["fallbacks"]` lists the operators
that needed one; `onnx_native.options(fallbacks=False)` or `ONNX_NATIVE_FALLBACKS=0` disables the
fallbacks. Operators that neither fallback covers are reported together in one error: see
[custom operators](custom-ops.md).

## Not expressible

| operator | reason |
| --- | --- |
"""


def dtype_names(row: Row) -> set[str]:
    """Returns the dtypes of a row's samples."""
    names = {test for test in row.tests() if test in DTYPES}
    for case in row.cases:
        names |= {str(tensor.dtype).removeprefix("torch.") for tensor in case.inputs}
    return names


# The short names of dtypes, in the order of the page.
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
    """Returns one line per key of a family's rows."""
    dtypes: dict[str, set[str]] = collections.defaultdict(set)
    lowest: dict[str, int] = {}
    for row in rows:
        for key in row.all_keys:
            dtypes[key] |= dtype_names(row)
            lowest[key] = min(row.lowest_opset, lowest.get(key, row.lowest_opset))
    lines = ["| operator | dtypes | opset | limits |", "| --- | --- | --- | --- |"]
    for key in sorted(dtypes):
        shown = " ".join(short for name, short in ORDER.items() if name in dtypes[key])
        opset = "" if lowest[key] == OLDER_OPSET else f"{lowest[key]}+"
        lines.append(f"| `{key}` | {shown} | {opset} | {LIMITS.get(key, '')} |")
    return lines


def document() -> str:
    """Returns the whole page."""
    keys = onnx_native._C.table_keys()
    text = HEADER.format(
        keys=len(keys),
        operators=len({op for op, _ in keys}),
        oldest=OLDER_OPSET,
    )
    lines = [f"| {operator} | {reason} |" for operator, reason in LEFT_OUT.items()]
    for family, rows in FAMILIES.items():
        lines += ["", f"## {family.replace('_', ' ').capitalize()}", "", *family_table(rows)]
    for title, keys_and_tests in (
        ("Only in TorchScript", ONLY_IN_TORCHSCRIPT),
        ("Only in native capture", ONLY_IN_NATIVE_CAPTURE),
    ):
        lines += ["", f"## {title}", "", "| operator | tests |", "| --- | --- |"]
        lines += [f"| `{key}` | {tests} |" for key, tests in sorted(keys_and_tests.items())]
    return text + "\n".join(lines) + "\n"


if __name__ == "__main__":
    torch.ops.load_library(onnx_native.library_path())
    PATH.write_text(document(), encoding="utf-8")
