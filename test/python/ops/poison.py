"""Compares the rows of the operators' test table with eager on NaN, infinities and empty tensors.

    PYTHONPATH=build/python:test/python python -m ops.poison

Each sample is exported, then runs with some elements of its floating-point inputs replaced. It is
also exported with inputs of which the first or the last dimension is empty. A sample is used if
eager accepts it. Operators that differ are in docs/nan.md.
"""

from __future__ import annotations

import argparse
import collections
import json
import time
from collections.abc import Iterator

import torch

from ops import checking, children
from ops.row import Case, Row
from ops.sweep import quiet_rows

NAN, INF = float("nan"), float("inf")
POISONS = {"nan": (NAN,), "inf": (INF,), "-inf": (-INF,), "mix": (NAN, INF, -INF), "same": ()}
Finding = tuple[str, str, str, str]  # row, input, stage, reason


def poisoned(inputs: tuple[torch.Tensor, ...], kind: str) -> tuple[torch.Tensor, ...]:
    """Replaces about a third of the elements of each floating-point input."""
    generator = torch.Generator().manual_seed(1)
    results = []
    for x in inputs:
        x = x.clone()
        if x.is_floating_point() and x.numel() and POISONS[kind]:
            values = torch.tensor(POISONS[kind], dtype=x.dtype)
            chosen = values[torch.randint(len(values), x.shape, generator=generator)]
            where = torch.rand(x.shape, generator=generator) < (0.3 if x.numel() > 2 else 1)
            x = torch.where(where, chosen, x)
        results.append(x)
    return tuple(results)


def emptied(inputs: tuple[torch.Tensor, ...], axis: int) -> tuple[torch.Tensor, ...] | None:
    """Empties the first or last dimension of the inputs that have the first one's size there."""
    if not inputs or inputs[0].dim() == 0 or inputs[0].shape[axis] == 0:
        return None
    size = inputs[0].shape[axis]
    return tuple(
        x.narrow(axis, 0, 0).clone() if x.dim() and x.shape[axis] == size else x.clone()
        for x in inputs
    )


def exported(case: Case, inputs: tuple[torch.Tensor, ...]) -> torch.onnx.ONNXProgram:
    copies = tuple(x.clone() for x in inputs)  # the function may write to them
    traced = torch.jit.trace(case.function, copies, check_trace=False)
    program = torch.onnx.export(traced, inputs, dynamo=True, verbose=False)
    assert program is not None
    return program


def accepted(case: Case, inputs: tuple[torch.Tensor, ...]) -> bool:
    try:
        return bool(checking.eager(case, [x.clone() for x in inputs]))
    except Exception:  # eager has errors of many classes
        return False


def examine(row: Row) -> Iterator[tuple[str, str, str]]:
    """Yields the input, the outcome and the reason."""
    samples = [
        case for test in ("cases", "float32") if test in row.tests() for case in row.samples(test)
    ]
    for case in samples:
        if not accepted(case, case.inputs):
            continue
        programs: list[tuple[tuple[str, ...], tuple[torch.Tensor, ...]]] = []
        programs.append((tuple(POISONS), case.inputs))
        for axis in (0, -1):
            empty = emptied(case.inputs, axis)
            if empty is not None and accepted(case, empty):
                programs.append(((f"empty {axis}",), empty))
        for kinds, inputs in programs:
            try:
                running = checking.session(exported(case, inputs))
            except Exception as error:
                text = " ".join(str(error.__cause__ or error).split())
                stage = "crash" if "[internal]" in text else "refused"
                yield kinds[0], stage, text[:300]
                continue
            for kind in kinds:
                given = poisoned(inputs, kind) if kind in POISONS else inputs
                if not accepted(case, given):
                    continue
                try:
                    checking.compare(row, running, case, tuple(x.clone() for x in given))
                except AssertionError as error:
                    yield kind, "differs", " ".join(str(error).split())[:300]
                except Exception as error:
                    yield kind, "fails", " ".join(str(error).split())[:300]
                else:
                    yield kind, "right", ""


def findings_of(row: Row) -> Iterator[Finding]:
    """Runs the row in a separate process."""
    return children.findings(
        lambda: ((row.title, *finding) for finding in examine(row)),
        lambda reason: (row.title, "", "crash", reason),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", default="", help="only titles that contain one of these; these")
    parser.add_argument("--after", default="", help="only rows after the one with this title")
    parser.add_argument("--part", default="0/1", help="which part of the rows, of how many")
    options = parser.parse_args()
    start = time.monotonic()
    every = quiet_rows()
    part, parts = map(int, options.part.split("/"))
    rows: dict[str, set[str]] = collections.defaultdict(set)
    counts: collections.Counter[str] = collections.Counter()
    list(examine(Row("", cases=(Case(torch.relu, torch.ones(2)),))))  # loads what exports need
    titles = [row.title for row in every]
    first = titles.index(options.after) + 1 if options.after else 0
    for row in every[first:][part::parts]:
        if row.random or any("@" in key for key in row.all_keys):
            continue
        if options.rows and not any(title in row.title for title in options.rows.split(";")):
            continue
        for finding in findings_of(row):
            counts[finding[2]] += 1
            rows[finding[2]].add(row.title)
            if finding[2] not in ("right", "refused"):
                print(json.dumps(finding), flush=True)
    tried = set().union(*rows.values())
    print(f"{len(tried)} rows tried, {len(tried - rows['differs'])} of them without a difference")
    print(f"{dict(counts)} calls, {time.monotonic() - start:.0f} seconds")


if __name__ == "__main__":
    main()
