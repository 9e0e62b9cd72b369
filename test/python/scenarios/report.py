"""Exports every scenario natively and with PyTorch's exporter, and reports the outcomes.

PYTHONPATH=build/python:test/python python -m scenarios.report [part of a name ...]
"""

from __future__ import annotations

import contextlib
import io
import logging
import os
import sys
from collections.abc import Callable
from typing import Any

os.environ["ONNX_NATIVE_FALLBACKS"] = "0"

import onnx_native
import torch

from scenarios import SCENARIOS, Scenario
from scenarios.scenario import check


def outcome(run: Callable[[], Any]) -> str:
    """Returns the reason of the failure in one line, or an empty string."""
    silent = io.StringIO()
    try:
        with contextlib.redirect_stdout(silent), contextlib.redirect_stderr(silent):
            run()
    except Exception as error:
        while error.__cause__ is not None and isinstance(error.__cause__, Exception):
            error = error.__cause__
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        return f"{type(error).__name__}: {' '.join(lines[:3])}"[:200]
    return ""


def compare(scenario: Scenario) -> tuple[str, str]:
    """Returns the failures of this exporter and of PyTorch's."""
    torch.manual_seed(0)
    ours = outcome(lambda: check(scenario))
    with onnx_native.disabled():
        theirs = outcome(lambda: check(scenario, names=False))
    return ours, theirs


def main() -> int:
    """Prints one table; fails if only PyTorch's exporter can export a scenario."""
    logging.disable(logging.CRITICAL)
    torch.ops.load_library(onnx_native.library_path())
    chosen = [s for s in SCENARIOS if not sys.argv[1:] or any(a in s.name for a in sys.argv[1:])]
    width = max(len(scenario.name) for scenario in chosen)
    passed = {"ours": 0, "theirs": 0}
    behind = []
    print(f"{'scenario':{width}}  inputs  ours  PyTorch's")
    for scenario in chosen:
        ours, theirs = compare(scenario)
        passed["ours"] += not ours
        passed["theirs"] += not theirs
        if ours and not theirs:
            behind.append(scenario.name)
        words = ["fails" if reason else "ok" for reason in (ours, theirs)]
        print(f"{scenario.name:{width}}  {len(scenario.inputs):6}  {words[0]:5} {words[1]}")
        for who, reason in (("ours", ours), ("PyTorch's", theirs)):
            if reason:
                print(f"    {who}: {reason}")
        sys.stdout.flush()
    print(f"ours {passed['ours']} of {len(chosen)}, PyTorch's {passed['theirs']} of {len(chosen)}")
    if behind:
        print("only PyTorch's exporter:", *behind)
    return len(behind) > 0


if __name__ == "__main__":
    sys.exit(main())
