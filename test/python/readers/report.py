"""Saves every test program with torch.export.save and reports which archives give the same model.

    PYTHONPATH=build/python:test/python python -m readers.report [--only models,scenarios,...]

A program counts if it exports natively from Python and torch.export.save can write it. Its archive
is correct if the reader returns the same program and it exports to the same bytes (metadata off).
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import gc
import io
import logging
import multiprocessing
import sys
import time
import warnings
from collections.abc import Callable, Iterator

import onnx_native
import torch
from models import zoo
from models.architectures import ARCHITECTURES
from ops import checking
from ops.rows import ROWS
from scenarios import SCENARIOS, Scenario
from scenarios.scenario import export

from readers.archives import Comparison, compare, reason

Capture = Callable[[], torch.export.ExportedProgram]


def capture_scenario(scenario: Scenario) -> torch.export.ExportedProgram:
    """Captures the scenario's program like torch.onnx.export."""
    captured = export(scenario).exported_program
    assert captured is not None
    return captured


def capture_row(number: int, test: str) -> torch.export.ExportedProgram:
    """Captures the first call of a row of the operators' table."""
    case = ROWS[number].samples(test)[0]
    return torch.export.export(checking.Calling(case).eval(), case.inputs)


def programs() -> Iterator[tuple[str, str, Capture]]:
    """Yields set, name and capture function of each program."""
    for name, model in {**zoo.ZOO, "bert_small": zoo.BERT_SMALL}.items():
        yield "zoo", name, model.capture
    for name, architecture in ARCHITECTURES.items():
        yield "architectures", name, architecture.capture
    for scenario in SCENARIOS:
        yield "scenarios", scenario.name, functools.partial(capture_scenario, scenario)
    for number, row in enumerate(ROWS):
        for test in row.tests():
            if test != "dynamic" and test not in row.xfails:
                capture = functools.partial(capture_row, number, test)
                yield "operators", f"{row.title}-{test}", capture


def examine(number: int) -> tuple[str, str, Comparison]:
    """One of the programs."""
    global _programs
    if _programs is None:
        logging.disable(logging.CRITICAL)
        torch.set_num_threads(1)
        torch.ops.load_library(onnx_native.library_path())
        _programs = list(programs())
    group, name, capture = _programs[number]
    silent = io.StringIO()
    with (
        warnings.catch_warnings(),
        torch.no_grad(),
        contextlib.redirect_stdout(silent),
        contextlib.redirect_stderr(silent),
        zoo.scratch_folder() as folder,
    ):
        warnings.simplefilter("ignore")
        torch.manual_seed(0)
        try:
            program = capture()
        except Exception as error:
            return group, name, Comparison(captured=f"not captured: {reason(error)}")
        result = group, name, compare(program, folder)
    gc.collect()
    return result


_programs: list[tuple[str, str, Capture]] | None = None


def main() -> int:
    """Prints the differences and one table; fails if there are differences."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default="", help="sets, with commas")
    parser.add_argument("--names", default="", help="only names that contain this")
    parser.add_argument("--every", type=int, default=1, help="only each so-manieth program")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--verbose", action="store_true", help="every program, and why not")
    options = parser.parse_args()
    start = time.monotonic()
    chosen = [
        number
        for number, (group, name, _) in enumerate(programs())
        if (not options.only or group in options.only.split(",")) and options.names in name
    ][:: options.every]
    totals: dict[str, list[int]] = {}
    with multiprocessing.get_context("spawn").Pool(options.workers, maxtasksperchild=300) as pool:
        for group, name, found in pool.imap(examine, chosen):
            total = totals.setdefault(group, [0, 0, 0, 0])
            total[0] += found.counts and not found.archive
            total[1] += found.counts
            total[2] += bool(found.captured)
            total[3] += bool(found.saved)
            if found.archive:
                print(f"{group} {name}: {found.archive}", flush=True)
            elif options.verbose:
                why = "" if found.counts else f" does not count: {found.captured or found.saved}"
                print(f"{group} {name}{why}", flush=True)
    print("| set | archives that are right | not exported from Python | not saved |")
    print("| --- | --- | --- | --- |")
    for group, (right, counted, unexported, unsaved) in totals.items():
        print(f"| {group} | {right} of {counted} | {unexported} | {unsaved} |")
    print(f"{time.monotonic() - start:.0f} seconds")
    return any(right < counted for right, counted, _, _ in totals.values())


if __name__ == "__main__":
    sys.exit(main())
