"""Exports the rows of the operators' test table in more dtypes and opsets.

    PYTHONPATH=build/python:test/python python -m ops.sweep --dtypes float64,bfloat16 --opsets 13,26

A sample is used if eager supports it in the dtype. Its model must pass the full checker, load
in ONNX Runtime and match eager; or the export must report an error, or warn that ONNX Runtime
has no kernel. Samples are traced, which is ten times faster than torch.export (`--route fx`).
`--each 2` uses two of the opsets per sample, in turn; `--part 0/4` runs the first of four
parts of the rows.
"""

from __future__ import annotations

import argparse
import collections
import json
import logging
import os
import pathlib
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any

import onnxruntime
import torch

from ops import checking, children
from ops.row import TOLERANCES, Case, Row, case_of, opinfo

OPSETS = (9, 10, 11, 12, 13, 15, 18, 20, 23, 26)
DTYPES = {
    name: getattr(torch, name)
    for name in (
        "float32",
        "float64",
        "bfloat16",
        "float16",
        "int8",
        "uint8",
        "int16",
        "int32",
        "bool",
        "complex128",
    )
}
# float64 must keep its digits: an intermediate float32 would show.
TIGHT = (1e-9, 1e-10)
NARROW = (torch.float16, torch.bfloat16)
OVERFLOW = "eager's float32 recurrence overflows or loses digits; ours is in float64"
POLYNOMIALS = (
    *((f"{name}chebyshev", kind) for name in ("", "shifted_") for kind in "tuvw"),
    ("laguerre", "l"),
    ("legendre", "p"),
)
# Rows whose numbers differ for reasons outside of the exporter.
TIES = "eager does not say which of equal elements it takes"
TABLE = "the sample holds a float32 table"
QUOTIENT = "ONNX Runtime does not round a float16 quotient that is cast to float32"
KNOWN = {
    "argsort": TIES,
    "kthvalue": TIES,
    "mode": TIES,
    "sort": TIES,
    "topk": TIES,
    "expectations of dropout in training": "random",
    "rrelu in training": "random",
    "istft@complex": TABLE,
    "view_as_real of complex": TABLE,
    "windows": TABLE,
    "polygamma 1 of float64": "at a pole, the result is the rounding of pi * x",
    "quantized_decomposed::choose_qparams.tensor of float16": QUOTIENT,
    "quantized_decomposed::choose_qparams_symmetric.tensor of float16": QUOTIENT,
    "quantized_decomposed::choose_qparams_per_token of bfloat16": "torch.export records float64",
    "numbers from sizes of float64": "torch.jit.trace computes with sizes in float32",
    "resize_": "torch.jit.trace records the result as a constant",
    **{f"{name}_polynomial_{kind} of uint8": OVERFLOW for name, kind in POLYNOMIALS},
}
# Eager itself is not more accurate than this in float64; ours is compared with mpmath in
# test_float64.py.
LOOSE = dict.fromkeys(
    (
        "special_airy_ai",
        "special_bessel_j0",
        "special_bessel_j1",
        "special_bessel_y0",
        "special_bessel_y1",
        "_fused_moving_avg_obs_fq_helper_functional",
    ),
    (1e-6, 1e-6),
)


@dataclass(frozen=True)
class Finding:
    """The outcome of one sample in one dtype and opset."""

    row: str
    dtype: str
    opset: int
    # "right", "refused", "known" (a difference of KNOWN), "warned" (ONNX Runtime has no kernel, and
    # the export said so), or the stage that failed: export, check, load, values; "crash" of the
    # process.
    stage: str
    reason: str = ""


def converted(case: Case, dtype: torch.dtype) -> Case | None:
    """Converts inputs of the case's main dtype; returns None if eager rejects the result."""
    if dtype is torch.complex128:
        main = {torch.complex64: dtype, torch.float32: torch.float64}
        needed = torch.complex64
    else:
        needed = torch.float32 if dtype.is_floating_point else torch.int64
        main = {needed: dtype}
    if not any(x.dtype is needed for x in case.inputs):
        return None
    inputs = [x.to(main.get(x.dtype, x.dtype)) for x in case.inputs]
    for x in inputs:
        if x.dtype in NARROW:
            x[x.isnan()] = float("nan")  # the cast may have set the sign bit of a NaN
    result = Case(case.function, *inputs)
    try:
        checking.eager(result, result.inputs)
    except Exception:  # eager has errors of many classes
        return None
    return result


def samples_of(row: Row, dtype: torch.dtype, count: int = 2) -> list[Case]:
    """Returns calls in the dtype: the first explicit cases, the first and last OpInfo samples."""
    if any("@quantized" in key for key in row.all_keys):
        return []  # quantized tensors have dtypes of their own
    chosen = [found for case in row.cases if (found := converted(case, dtype))][:count]
    if row.opinfo and dtype in opinfo(row.opinfo, row.variant).dtypes:
        info = opinfo(row.opinfo, row.variant)
        torch.manual_seed(0)
        samples = list(info.sample_inputs("cpu", dtype, requires_grad=False))
        chosen += [case_of(info.op, sample) for sample in samples[:: max(1, len(samples) - 1)]][
            :count
        ]
    return chosen


@dataclass(frozen=True)
class Plan:
    """The dtypes, the opsets, and the number of opsets per sample."""

    dtypes: tuple[str, ...]
    opsets: tuple[int, ...]
    each: int
    route: str

    def capture(self, case: Case) -> Callable[[int], torch.onnx.ONNXProgram | None]:
        """Exports to an opset."""
        if self.route == "fx":
            captured = torch.export.export(checking.Calling(case).eval(), case.inputs)
            return lambda opset: checking.export_program(captured, opset)
        copies = tuple(x.clone() for x in case.inputs)  # the function may write to them
        traced: Any = torch.jit.trace(case.function, copies, check_trace=False)
        return lambda opset: torch.onnx.export(
            traced, case.inputs, dynamo=True, opset_version=opset, verbose=False
        )


def examine(row: Row, name: str, plan: Plan) -> Iterator[Finding]:
    """Yields the outcomes of the row's samples in a dtype."""
    dtype = DTYPES[name]
    if dtype in (torch.float64, torch.complex128):
        row = replace(row, tolerance=dict(row.tolerance) | {name: LOOSE.get(row.title, TIGHT)})
    if dtype in NARROW:
        row = replace(row, tolerance={"float32": TOLERANCES[dtype]})
    turn = sum(map(ord, row.title + name))
    for case in samples_of(row, dtype):
        try:
            export = plan.capture(case)
        except Exception:  # nothing to export
            continue
        for _ in range(min(plan.each, len(plan.opsets))):
            opset = plan.opsets[turn % len(plan.opsets)]
            turn += 1
            yield Finding(row.title, name, opset, *outcome(row, name, export, case, opset))


def compare(row: Row, running: onnxruntime.InferenceSession, case: Case) -> None:
    """Compares with eager; for 16-bit floats, which eager may sum in 16 bits, also with float64."""
    inputs = tuple(x.clone() for x in case.inputs)
    try:
        checking.compare(row, running, case, inputs)
    except AssertionError as failure:
        if not any(x.dtype in NARROW for x in inputs):
            raise
        try:
            checking.eager_in_float64(case, inputs)
        except Exception as error:  # not every operator supports float64
            raise failure from error
        exact = Case(lambda *xs: checking.eager_in_float64(case, xs), *inputs)
        checking.compare(row, running, exact, inputs)


def outcome(
    row: Row,
    name: str,
    export: Callable[[int], torch.onnx.ONNXProgram | None],
    case: Case,
    opset: int,
) -> tuple[str, str]:
    """Returns the stage that failed, and the reason."""
    stage = "export"
    said: list[str] = []
    try:
        program = export(min(opset, row.newest))
        assert program is not None
        said = program.export_report["warnings"]  # type: ignore[attr-defined]
        stage = "check"
        checking.check(program)
        stage = "load"
        running = checking.session(program)
        stage = "values"
        compare(row, running, case)
    except Exception as error:
        text = " ".join(str(error.__cause__ or error).split())
        if stage == "export" and "[internal]" not in text:
            return "refused", text[:300]
        if stage == "load" and said:
            return "warned", " ".join(said)[:300]
        known = KNOWN.get(row.title) or KNOWN.get(f"{row.title} of {name}")
        if stage == "values" and known:
            return "known", known
        return stage, text[:400]
    return "right", ""


def findings_of(row: Row, plan: Plan) -> Iterator[Finding]:
    """Runs the row in a separate process."""
    return children.findings(
        lambda: (each for dtype in plan.dtypes for each in examine(row, dtype, plan)),
        lambda reason: Finding(row.title, "", 0, "crash", reason),
    )


def quiet_rows() -> tuple[Row, ...]:
    """Returns the operator rows, for a measurement of native exports without warnings."""
    os.environ["ONNX_NATIVE_FALLBACKS"] = "0"
    import onnx_native

    from ops.rows import ROWS

    torch.set_num_threads(1)
    torch.ops.load_library(onnx_native.library_path())
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    torch.set_grad_enabled(False)
    return tuple(ROWS)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dtypes", default=",".join(DTYPES))
    parser.add_argument("--opsets", default=",".join(map(str, OPSETS)))
    parser.add_argument("--each", type=int, default=len(OPSETS), help="opsets for each sample")
    parser.add_argument("--route", choices=("trace", "fx"), default="trace")
    parser.add_argument("--rows", default="", help="only titles that contain one of these; these")
    parser.add_argument("--part", default="0/1", help="which part of the rows, of how many")
    parser.add_argument("--json", type=pathlib.Path, help="write every finding here, one a line")
    options = parser.parse_args()
    start = time.monotonic()
    rows = quiet_rows()
    part, parts = map(int, options.part.split("/"))
    counts: collections.Counter[tuple[str, int, str]] = collections.Counter()
    if options.json:
        options.json.write_text("")
    opsets = tuple(int(opset) for opset in options.opsets.split(","))
    plan = Plan(tuple(options.dtypes.split(",")), opsets, options.each, options.route)
    # Loads the operator database and the modules that exports need before processes fork.
    warm = Case(torch.relu, torch.ones(2))
    opinfo("add")
    outcome(Row(""), "float32", plan.capture(warm), warm, OPSETS[-1])
    for row in rows[part::parts]:
        if options.rows and not any(title in row.title for title in options.rows.split(";")):
            continue
        for finding in findings_of(row, plan):
            counts[finding.dtype, finding.opset, finding.stage] += 1
            if options.json:
                with options.json.open("a") as lines:
                    lines.write(json.dumps(asdict(finding)) + "\n")
            if finding.stage not in ("right", "refused", "known", "warned"):
                print(*asdict(finding).values(), flush=True)
    for (dtype, opset, stage), count in sorted(counts.items()):
        print(f"| {dtype} | {opset} | {stage} | {count} |")
    print(f"{counts.total()} exports, {time.monotonic() - start:.0f} seconds")


if __name__ == "__main__":
    main()
