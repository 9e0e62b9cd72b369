"""Exports the rows of the operators' test table in further dtypes and opsets.

    PYTHONPATH=build/python:test/python python -m ops.sweep --dtypes float64,bfloat16 --opsets 13,26

A sample is taken where eager supports it in the dtype. Its model must pass the full checker, load
in ONNX Runtime and give eager's numbers, or the export must say which opset it needs.
"""

from __future__ import annotations

import argparse
import collections
import json
import logging
import pathlib
import time
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace

import torch

from ops import checking
from ops.row import Case, Row, case_of, opinfo

OPSETS = (13, 17, 18, 20, 26)
DTYPES = {
    name: getattr(torch, name)
    for name in ("float64", "bfloat16", "float16", "int8", "uint8", "int16", "int32", "bool")
}
# Float64 has to keep its digits: a detour over float32 would show.
TIGHT = (1e-9, 1e-10)


@dataclass(frozen=True)
class Finding:
    """What became of one sample in one dtype and opset."""

    row: str
    dtype: str
    opset: int
    stage: str  # "right", "refused", or the stage that failed: export, check, load, values
    reason: str = ""


def converted(case: Case, dtype: torch.dtype) -> Case | None:
    """The case with inputs of its main dtype in another one; None where eager does not take it."""
    main = torch.float32 if dtype.is_floating_point else torch.int64
    if not any(x.dtype is main for x in case.inputs):
        return None
    inputs = [x.to(dtype) if x.dtype is main else x for x in case.inputs]
    result = Case(case.function, *inputs)
    try:
        checking.eager(result, result.inputs)
    except Exception:  # eager has errors of many classes
        return None
    return result


def samples_of(row: Row, dtype: torch.dtype, count: int = 2) -> list[Case]:
    """Calls of the row in the dtype: the first ones written out, the first and last of OpInfo."""
    if any("@" in key for key in row.all_keys):
        return []  # complex and quantized tensors have dtypes of their own
    chosen = [found for case in row.cases if (found := converted(case, dtype))][:count]
    if row.opinfo and dtype in opinfo(row.opinfo, row.variant).dtypes:
        info = opinfo(row.opinfo, row.variant)
        torch.manual_seed(0)
        samples = list(info.sample_inputs("cpu", dtype, requires_grad=False))
        chosen += [case_of(info.op, sample) for sample in samples[:: max(1, len(samples) - 1)]][
            :count
        ]
    return chosen


def examine(row: Row, dtype: torch.dtype, opsets: Sequence[int]) -> Iterator[Finding]:
    """The outcome of the row's samples in each opset."""
    name = str(dtype).removeprefix("torch.")
    if dtype is torch.float64:
        row = replace(row, tolerance=dict(row.tolerance) | {"float64": TIGHT})
    for case in samples_of(row, dtype):
        try:
            captured = torch.export.export(checking.Calling(case).eval(), case.inputs)
        except Exception:  # nothing to export
            continue
        for opset in opsets:
            yield Finding(row.title, name, opset, *outcome(row, captured, case, opset))


def outcome(
    row: Row, captured: torch.export.ExportedProgram, case: Case, opset: int
) -> tuple[str, str]:
    """The stage that failed, and why."""
    stage = "export"
    try:
        program = checking.export_program(captured, min(opset, row.newest))
        stage = "check"
        checking.check(program)
        stage = "load"
        running = checking.session(program)
        stage = "values"
        checking.compare(row, running, case, case.inputs)
    except Exception as error:
        text = " ".join(str(error.__cause__ or error).split())
        if stage == "export" and "[internal]" not in text:
            return "refused", text[:300]
        return stage, text[:400]
    return "right", ""


def main() -> None:
    import onnx_native

    from ops.rows import ROWS

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dtypes", default=",".join(DTYPES))
    parser.add_argument("--opsets", default=",".join(map(str, OPSETS)))
    parser.add_argument("--rows", default="", help="only titles that contain this")
    parser.add_argument("--json", type=pathlib.Path, help="write every finding here")
    options = parser.parse_args()
    start = time.monotonic()
    torch.set_num_threads(1)
    torch.ops.load_library(onnx_native.library_path())
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    findings: list[Finding] = []
    with torch.no_grad():
        for row in ROWS:
            if options.rows not in row.title:
                continue
            for dtype in options.dtypes.split(","):
                opsets = [int(opset) for opset in options.opsets.split(",")]
                findings += examine(row, DTYPES[dtype], opsets)
    for finding in findings:
        if finding.stage not in ("right", "refused"):
            print(finding.row, finding.dtype, finding.opset, finding.stage, finding.reason[:200])
    counts = collections.Counter((f.dtype, f.opset, f.stage) for f in findings)
    for (dtype, opset, stage), count in sorted(counts.items()):
        print(f"| {dtype} | {opset} | {stage} | {count} |")
    if options.json:
        options.json.write_text(json.dumps([asdict(finding) for finding in findings], indent=1))
    print(f"{len(findings)} exports, {time.monotonic() - start:.0f} seconds")


if __name__ == "__main__":
    main()
