"""Counts what the native capture does with the samples of the operators' test table.

    PYTHONPATH=build/python:test/python python -m ops.captured [--each 5] [--part 0/2]

A sample is right, left to torch.export with a reason, or wrong. Static samples are those of all
dtypes; a dynamic sample has a dynamic first dimension, and runs at a second size too.
"""

from __future__ import annotations

import argparse
import collections
import logging
import re
import warnings
from collections.abc import Iterator
from typing import Any
from unittest import mock

import onnx_native
import torch
from onnx_native.recording import _capture, _recorder

from ops import checking
from ops.row import Case, Row
from ops.rows import ROWS

Larger = tuple[Case, list[bool], tuple[torch.Tensor, ...]]


class LeftToTorchExport(Exception):  # noqa: N818
    """The native capture leaves the program to torch.export."""


def dynamic(row: Row) -> Larger | None:
    """The first sample that takes a larger first dimension, its inputs that grow, larger inputs."""
    for case in row.samples("dynamic"):
        try:
            return (case, *case.grown())
        except ValueError:
            continue
    return None


def outcome(row: Row, case: Case, grows: list[bool], *larger: tuple[torch.Tensor, ...]) -> str:
    """Returns "right", "aside: ..." or "wrong: ..."."""

    def note(*arguments: Any, **options: Any) -> object:
        try:
            return plain(*arguments, **options)
        except _recorder.StepAsideError as error:
            raise LeftToTorchExport(str(error)) from None

    plain = _capture.capture
    try:
        with onnx_native.options(capture="native"), mock.patch.object(_capture, "capture", note):
            program = checking.export(case, grows, max(20, row.opset))
    except Exception as error:
        found: BaseException | None = error
        while found is not None and not isinstance(found, LeftToTorchExport):
            found = found.__cause__ or found.__context__
        return f"aside: {found}" if found is not None else f"wrong: {error}"
    try:
        running = checking.session(program)
        for inputs in (case.inputs, *larger):
            checking.compare(row, running, case, inputs)
    except Exception as error:
        return f"wrong: {error}"
    return "right"


def outcomes(row: Row) -> Iterator[tuple[str, str]]:
    """Yields the name of each sample's test with its outcome."""
    for test in row.tests():
        if test in row.xfails:
            continue
        if test == "dynamic":
            found = dynamic(row)
            if found is not None:
                case, grows, larger = found
                yield "dynamic", outcome(row, case, grows, larger)
            continue
        for case in row.samples(test):
            yield "static", outcome(row, case, [])


def chosen_rows(description: str | None) -> list[Row]:
    """Returns the rows that the command line asks for, and makes their runs quiet."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--each", type=int, default=1, help="use each n-th row")
    parser.add_argument("--part", default="0/1", help="the part of the rows, as in 0/4")
    arguments = parser.parse_args()
    part, parts = map(int, arguments.part.split("/"))
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    torch.ops.load_library(onnx_native.library_path())
    torch.set_num_threads(1)
    return list(ROWS[:: arguments.each][part::parts])


def main() -> None:
    counts: collections.Counter[tuple[str, str]] = collections.Counter()
    reasons: collections.Counter[str] = collections.Counter()
    for row in chosen_rows(__doc__):
        for sizes, found in outcomes(row):
            kind, _, reason = found.partition(": ")
            counts[sizes, kind] += 1
            if kind == "aside":
                reasons[re.sub(r"\(\w+\.py:\d+\)", "", reason)] += 1
            if kind == "wrong":
                print(f"- {row.title}, {sizes}: {reason.splitlines()[0]}", flush=True)
    for reason, number in reasons.most_common():
        print(f"{number:4} left to torch.export: {reason}")
    for sizes in ("static", "dynamic"):
        numbers = ", ".join(f"{k} {counts[sizes, k]}" for k in ("right", "aside", "wrong"))
        print(f"{sizes}: {numbers}")


if __name__ == "__main__":
    main()
