"""Exports PyTorch's operator database and reports how much of it is correct.

    PYTHONPATH=build/python:test/python python -m ops.report --dtypes float32,int64,bool,float16

An operator is correct if its first, middle and last OpInfo samples are captured, exported
without fallbacks, pass the full check, and match eager in ONNX Runtime. With
`--fallbacks`, operators that fail are tried again with fallbacks (docs/operators.md).
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import functools
import json
import logging
import multiprocessing
import pathlib
import time
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch

from ops import checking
from ops.row import DTYPES, Case, Row, case_of

# Linear algebra operators whose names in the database do not start with linalg.
LINEAR_ALGEBRA = frozenset(
    "cholesky cholesky_inverse cholesky_solve geqrf logdet lu lu_solve lu_unpack matrix_exp ormqr "
    "pca_lowrank pinverse qr svd svd_lowrank triangular_solve norm.nuc norm.fro".split()
)
# Operators that choose among ties -> position of their argument `dim`.
DIM_OF_TIES = {"argsort": 0, "kthvalue": 1, "mode": 0, "sort": 0, "topk": 1}
# Operators that return uninitialized memory.
UNINITIALIZED = ("empty", "new_empty", "resize")


@dataclass(frozen=True)
class Outcome:
    """The outcome of one operator in one dtype."""

    operator: str
    dtype: str
    status: str  # "right", or the stage that failed: capture, export, check, load, run, values
    reason: str = ""
    fallbacks: tuple[str, ...] = ()


class Stage:
    """Records the current stage for errors."""

    def __init__(self) -> None:
        self.name = "capture"


def is_linear_algebra(operator: str) -> bool:
    return operator.startswith(("linalg.", "sparse.")) or operator in LINEAR_ALGEBRA


def title(info: Any) -> str:
    """Returns the operator's name in PyTorch's tests."""
    return f"{info.name}.{info.variant_test_name}" if info.variant_test_name else str(info.name)


@functools.cache
def rows() -> dict[tuple[str, str], Row]:
    """Returns the operators' rows in the test table."""
    from ops.rows import ROWS

    return {(row.opinfo, row.variant): row for row in ROWS if row.opinfo}


def is_random(captured: torch.export.ExportedProgram) -> bool:
    """Returns whether the program contains a random operator."""
    return any(
        torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ())
        for node in captured.graph.nodes
    )


def comparable_case(operator: str, info: Any, sample: Any) -> Case:
    """Converts a sample to a case.

    For ties, eager returns the index of any element, so the case returns elements instead.
    """
    case = case_of(info.op, sample)
    if operator not in DIM_OF_TIES or sample.kwargs.get("stable"):
        return case
    position = DIM_OF_TIES[operator]
    given = sample.args[position] if len(sample.args) > position else -1
    dim = sample.kwargs.get("dim", given)

    def function(*tensors: torch.Tensor) -> Any:
        found = case.function(*tensors)
        values, indices = (None, found) if operator == "argsort" else found
        if tensors[0].dim() == 0:
            return values, indices
        keepdim = indices.dim() == tensors[0].dim()
        places = indices if keepdim else indices.unsqueeze(dim)
        return values, torch.take_along_dim(tensors[0], places, dim)

    return Case(function, *case.inputs)


def check(info: Any, case: Case, stage: Stage) -> set[str]:
    """Exports, checks, runs and compares one sample; returns the operators that used fallbacks."""
    stage.name = "capture"
    captured = torch.export.export(checking.Calling(case).eval(), case.inputs)
    stage.name = "export"
    program = checking.export_program(captured)
    stage.name = "check"
    checking.check(program)
    stage.name = "load"
    running = checking.session(program)
    stage.name = "values"
    random = title(info).startswith(UNINITIALIZED) or is_random(captured)
    row = rows().get((info.name, info.variant_test_name), Row(""))
    row = Row("", random=random, tolerance=row.tolerance, wide=row.wide)
    checking.compare(row, running, case, case.inputs)
    return checking.fallbacks(program)


def spread(samples: Sequence[Any], count: int) -> list[Any]:
    """Returns `count` of the samples, including the first and the last."""
    last = len(samples) - 1
    return [samples[i] for i in sorted({round(n * last / (count - 1)) for n in range(count)})]


def examine(info: Any, dtype: str, count: int) -> Outcome:
    """Returns the outcome of one operator in one dtype."""
    torch.manual_seed(0)
    stage = Stage()
    used: set[str] = set()
    try:
        samples = list(info.sample_inputs("cpu", DTYPES[dtype], requires_grad=False))
        for sample in spread(samples, count):
            used |= check(info, comparable_case(title(info), info, sample), stage)
    except Exception as error:
        return Outcome(title(info), dtype, stage.name, _reason(error))
    return Outcome(title(info), dtype, "right", fallbacks=tuple(sorted(used)))


def _reason(error: Exception) -> str:
    cause = error.__cause__ if isinstance(error, torch.onnx.OnnxExporterError) else error
    text = str(cause or error).strip()
    first = " ".join(line.strip() for line in text.splitlines()[:3])
    return f"{type(cause or error).__name__}: {first[:300]}"


def operators(dtype: str) -> list[Any]:
    """Returns the operators of the database that support this dtype."""
    from torch.testing._internal import common_methods_invocations  # seconds

    return [info for info in common_methods_invocations.op_db if DTYPES[dtype] in info.dtypes]


def run(task: tuple[int, str, int, bool]) -> Outcome:
    """Examines one operator, given its number among those that support the dtype."""
    import onnx_native

    number, dtype, count, fallbacks = task
    torch.set_num_threads(1)
    torch.ops.load_library(onnx_native.library_path())
    logging.disable(logging.CRITICAL)
    with warnings.catch_warnings(), torch.no_grad(), onnx_native.fallbacks(fallbacks):
        warnings.simplefilter("ignore")
        return examine(operators(dtype)[number], dtype, count)


@contextlib.contextmanager
def workers(count: int) -> Iterator[Any]:
    with multiprocessing.get_context("spawn").Pool(count, maxtasksperchild=400) as pool:
        yield pool


def summary(outcomes: Sequence[Outcome], again: Sequence[Outcome]) -> list[str]:
    """Returns the results of one dtype as Markdown table rows."""
    rescued = {outcome.operator for outcome in again if outcome.status == "right"}
    rows = []
    for name, chosen in (
        ("all", outcomes),
        (
            "outside linear algebra and sparse",
            [outcome for outcome in outcomes if not is_linear_algebra(outcome.operator)],
        ),
    ):
        right = sum(outcome.status == "right" for outcome in chosen)
        more = sum(outcome.operator in rescued for outcome in chosen)
        failed = collections.Counter(
            outcome.status for outcome in chosen if outcome.status != "right"
        )
        stages = ", ".join(f"{stage} {count}" for stage, count in failed.most_common())
        dtype = outcomes[0].dtype
        rows.append(f"| {dtype} | {name} | {right} of {len(chosen)} | {right + more} | {stages} |")
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dtypes", default="float32,int64,bool,float16")
    parser.add_argument("--operators", default="", help="only names that contain this")
    parser.add_argument("--samples", type=int, default=3, help="samples per operator; at least 2")
    parser.add_argument("--fallbacks", action="store_true", help="retry failures with fallbacks")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--json", type=pathlib.Path, help="write every outcome here")
    options = parser.parse_args()
    start = time.monotonic()
    everything: list[Outcome] = []
    table = ["| dtype | operators | correct, natively | correct, with fallbacks | failures |"]
    table.append("| --- | --- | --- | --- | --- |")
    with workers(options.workers) as pool:
        for dtype in options.dtypes.split(","):
            infos = operators(dtype)
            chosen = [i for i, info in enumerate(infos) if options.operators in title(info)]
            outcomes = pool.map(
                run, [(i, dtype, options.samples, False) for i in chosen], chunksize=4
            )
            failed = [i for i, o in zip(chosen, outcomes, strict=True) if o.status != "right"]
            again = []
            if options.fallbacks:
                again = pool.map(
                    run, [(i, dtype, options.samples, True) for i in failed], chunksize=1
                )
            table += summary(outcomes, again)
            saved = {outcome.operator: outcome for outcome in again if outcome.status == "right"}
            for outcome in outcomes:
                if outcome.status == "right":
                    continue
                helped = saved.get(outcome.operator)
                nets = f" [rescued by {', '.join(helped.fallbacks)}]" if helped else ""
                print(f"{dtype} {outcome.operator}: {outcome.status}: {outcome.reason}{nets}")
            everything += outcomes
            if options.json:
                options.json.write_text(json.dumps([asdict(o) for o in everything], indent=1))
    print("\n".join(table))
    print(f"{time.monotonic() - start:.0f} seconds")


if __name__ == "__main__":
    main()
