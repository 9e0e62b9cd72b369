"""Exports the rows of the operators' test table with wrong arguments, as TorchScript.

    PYTHONPATH=build/python:test/python python -m ops.refusals [--rows permute;conv] [--part 0/2]

Each sample is traced. Then a number, a list of numbers, or the dtype or rank of an input is
replaced by an absurd one. Where eager refuses the call, the export must refuse it too. Elements out
of range are not a part of this: a model does not know them.
"""

from __future__ import annotations

import argparse
import collections
import functools
import itertools
import time
from collections.abc import Callable, Iterator
from typing import Any

import torch

from ops import children
from ops.row import Case, Row
from ops.sweep import quiet_rows

NUMBERS = (-7, -1, 0, 1, 2, 99)
Inputs = tuple[torch.Tensor, ...]
Finding = tuple[str, str, str, str]  # row, change, stage, reason


def converted(x: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    return (x.real if x.is_complex() else x).to(dtype)


def changed_inputs(inputs: Inputs) -> Iterator[tuple[str, Inputs]]:
    """Yields inputs of which one has another dtype, rank or size."""
    for i, x in enumerate(inputs):
        other = torch.int64 if x.is_floating_point() or x.is_complex() else torch.float32
        changes: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
            f"{other}": functools.partial(converted, dtype=other),
            "one dimension more": lambda x: x[None],
            "one dimension less": lambda x: x[0],
            "one element less": lambda x: x[..., :-1],
        }
        for name, change in changes.items():
            try:
                yield f"input {i}: {name}", (*inputs[:i], change(x), *inputs[i + 1 :])
            except IndexError:
                continue


# Integers of these arguments are enumerators, which PyTorch does not check.
ENUMERATED = ("dtype", "layout", "memory_format")


def constants_of(graph: Any) -> Iterator[tuple[Any, Any]]:
    """Yields the nodes of constant integers with those that read them."""
    for node in graph.nodes():
        schema = node.schema()
        names = [x.name for x in torch._C.parse_schema(schema).arguments] if "::" in schema else []
        for name, value in itertools.zip_longest(names, node.inputs()):
            made = value.node() if value is not None else None
            if made is None or made.kind() != "prim::Constant" or name in ENUMERATED:
                continue
            if value.type().kind() == "IntType":
                yield made, node


def changed_graphs(traced: Any) -> Iterator[tuple[str, Any]]:
    """Yields functions of which one integer, or one element of a list, is another number."""
    count = len(list(constants_of(traced.graph.copy())))
    for i in range(count):
        for number in NUMBERS:
            graph = traced.graph.copy()
            made, reads = list(constants_of(graph))[i]
            if made.i("value") == number:
                continue
            with graph.insert_point_guard(reads):
                constant = graph.insertConstant(number)
            for at, value in enumerate(reads.inputs()):
                if value.node() == made:
                    reads.replaceInput(at, constant)
                    break
            function = torch._C._create_function_from_graph("forward", graph)
            yield f"{reads.kind()} {i}: {made.i('value')} is {number}", function


def failure_of(function: Callable[..., Any], inputs: Inputs) -> str | None:
    try:
        function(*(x.clone() for x in inputs))
    except Exception as error:
        return (str(error).strip().splitlines() or [""])[-1]
    return None


def examine(row: Row) -> Iterator[tuple[str, str, str]]:
    """Yields the change, the outcome and the reason."""
    tests = [test for test in ("cases", "float32", "int64") if test in row.tests()][:1]
    for case in [case for test in tests for case in row.samples(test)[:2]]:
        try:
            traced: Any = torch.jit.trace(
                case.function, tuple(x.clone() for x in case.inputs), check_trace=False
            )
        except Exception:  # nothing to export
            continue
        calls = [(name, traced, inputs) for name, inputs in changed_inputs(case.inputs)]
        calls += [(name, function, case.inputs) for name, function in changed_graphs(traced)]
        for name, function, inputs in calls:
            reason = failure_of(function, inputs)
            try:
                torch.onnx.export(function, inputs, dynamo=True, verbose=False)
            except Exception as error:
                text = " ".join(str(error.__cause__ or error).split())
                yield name, "internal" if "[internal]" in text else "refused", text[:400]
            else:
                yield name, "exported" if reason is None else "accepted", reason or ""


def findings_of(row: Row) -> Iterator[Finding]:
    """Runs the row in a separate process."""
    return children.findings(
        lambda: ((row.title, *finding) for finding in examine(row)),
        lambda reason: (row.title, "", "crash", reason),
        seconds=60,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", default="", help="only titles that contain one of these; these")
    parser.add_argument("--part", default="0/1", help="which part of the rows, of how many")
    options = parser.parse_args()
    start = time.monotonic()
    every = quiet_rows()
    part, parts = map(int, options.part.split("/"))
    counts: collections.Counter[str] = collections.Counter()
    list(examine(Row("", cases=(Case(torch.relu, torch.ones(2)),))))  # loads what exports need
    for row in every[part::parts]:
        if options.rows and not any(title in row.title for title in options.rows.split(";")):
            continue
        for finding in findings_of(row):
            counts[finding[2]] += 1
            if finding[2] not in ("exported", "refused"):
                print(*finding, sep=" | ", flush=True)
    print(f"{dict(counts)} calls, {time.monotonic() - start:.0f} seconds")


if __name__ == "__main__":
    main()
