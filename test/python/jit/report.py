"""Exports the TorchScript programs of the tests and reports which models match eager.

    PYTHONPATH=build/python:test/python python -m jit.report [part of a name ...]

Each program is exported at opset 20 and the newest, checked by onnx.checker and run with each
set of inputs in ONNX Runtime without its optimizations.
"""

from __future__ import annotations

import functools
import gc
import logging
import sys
import warnings
from collections.abc import Callable, Iterator

import onnx_native
import torch
from scenarios.report import outcome

from jit.models import MODELS, Case
from jit.programs import PROGRAMS
from jit.running import OPSETS, check


def scripted_program(name: str) -> Case:
    """One of the programs with loops, branches, writes and containers."""
    torch.manual_seed(0)
    module, inputs, dynamic_shapes = PROGRAMS[name]
    return Case(torch.jit.script(module.eval()), inputs, dynamic_shapes)


def cases() -> Iterator[tuple[str, str, Callable[[], Case]]]:
    """Yields set, name and factory of each program."""
    for name in PROGRAMS:
        yield "programs", name, functools.partial(scripted_program, name)
    for name, make in MODELS.items():
        yield "models", name, make


def export_and_run(make: Callable[[], Case], opset: int) -> None:
    """Raises an exception if a result differs from eager."""
    case = make()
    check(case.program, case.inputs, case.dynamic_shapes, (opset,))


def main() -> int:
    """Prints one line per program, the reasons of failures, and totals."""
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    torch.ops.load_library(onnx_native.library_path())
    wanted = sys.argv[1:]
    chosen = [case for case in cases() if not wanted or any(part in case[1] for part in wanted)]
    passed: dict[str, list[bool]] = {}
    for group, name, make in chosen:
        reasons = {
            opset: outcome(functools.partial(export_and_run, make, opset)) for opset in OPSETS
        }
        passed.setdefault(group, []).append(not any(reasons.values()))
        print(f"{group:9} {name:40} {'fails' if any(reasons.values()) else 'ok'}", flush=True)
        for opset, reason in reasons.items():
            if reason:
                print(f"    opset {opset}: {reason}", flush=True)
        gc.collect()
    for group, results in passed.items():
        print(f"TorchScript, {group}: {sum(results)} of {len(results)}")
    total = [result for results in passed.values() for result in results]
    print(f"TorchScript {sum(total)} of {len(total)}, at opsets {OPSETS[0]} and {OPSETS[1]}")
    return not all(total)


if __name__ == "__main__":
    sys.exit(main())
