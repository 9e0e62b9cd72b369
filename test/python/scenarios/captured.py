"""Counts what the native capture does with the scenarios, and why it leaves some to torch.export.

    PYTHONPATH=build/python:test/python python -m scenarios.captured [part of a name ...]

A scenario is right through the native capture or through torch.export, refused by both with an
error, or wrong: it exports, and fails its checks.
"""

from __future__ import annotations

import collections
import contextlib
import io
import logging
import sys
import warnings
from typing import Any
from unittest import mock

import onnx_native
import torch

from scenarios import SCENARIOS, Scenario, scenario


def outcome(one: Scenario) -> tuple[str, str]:
    """Returns "native", "torch.export", "refused" or "wrong", and the reason."""
    reports: list[dict[str, Any]] = []
    plain: Any = torch.onnx.export

    def export(*args: Any, **options: Any) -> Any:
        program = plain(*args, **options)
        reports.append(program.export_report["capture"])
        return program

    silent = io.StringIO()
    try:
        with (
            mock.patch.object(torch.onnx, "export", export),
            contextlib.redirect_stdout(silent),
            contextlib.redirect_stderr(silent),
        ):
            scenario.check(one)
    except Exception as error:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        return ("wrong" if reports else "refused"), " ".join(lines[:2])
    by = {report["by"] for report in reports}
    return ("native" if by == {"native"} else "torch.export"), str(
        reports[-1]["reason"] or "the scenario asks for it"
    )


def main() -> None:
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    torch.ops.load_library(onnx_native.library_path())
    torch.set_num_threads(1)
    counts: collections.Counter[str] = collections.Counter()
    for one in SCENARIOS:
        if sys.argv[1:] and not any(part in one.name for part in sys.argv[1:]):
            continue
        kind, reason = outcome(one)
        counts[kind] += 1
        if kind != "native":
            print(f"- {one.name}: {kind}: {reason}", flush=True)
    print(", ".join(f"{kind} {number}" for kind, number in counts.most_common()))


if __name__ == "__main__":
    main()
