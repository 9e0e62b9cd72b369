"""Compares the strides that the native capture answers with eager's, for all rows of the table.

    PYTHONPATH=build/python:test/python python -m ops.strides [--each 5] [--part 0/2]

Each sample runs with contiguous, transposed, channels-last and expanded inputs, and with inputs
that are slices of size 1. The program reads the strides of all results. The answers are eager's, or
the capture refuses the question.
"""

from __future__ import annotations

import collections
import queue
from collections.abc import Callable, Iterator
from typing import Any

import torch
from onnx_native.recording import _capture, _recorder
from onnx_native.request import _inputs
from torch.utils import _pytree as pytree

from ops.captured import chosen_rows
from ops.row import Case, Row

Tensor = torch.Tensor
Strides = list[tuple[int, ...]]


def transposed(x: Tensor) -> Tensor:
    """The same elements, with the last two dimensions swapped in memory."""
    return x.mT.contiguous().mT if x.dim() > 1 else x


def reversed_order(x: Tensor) -> Tensor:
    """The same elements, with the last dimension outermost in memory."""
    return x.movedim(-1, 0).contiguous().movedim(0, -1) if x.dim() > 2 else transposed(x)


def channels_last(x: Tensor) -> Tensor:
    """The same elements, with the second dimension innermost in memory."""
    return x.movedim(1, -1).contiguous().movedim(-1, 1) if x.dim() > 2 else x


def expanded(x: Tensor) -> Tensor:
    """The first element of the first dimension, in all of its places."""
    return x[:1].expand_as(x) if x.dim() > 0 else x


def single(x: Tensor) -> Tensor:
    """A slice of size 1 of the last dimension, whose strides are larger than its sizes say."""
    return x.movedim(-1, 0)[:1].movedim(0, -1) if x.dim() > 1 else x


LAYOUTS: dict[str, Callable[[Tensor], Tensor]] = {
    "contiguous": lambda x: x,
    "transposed": transposed,
    "reversed": reversed_order,
    "channels last": channels_last,
    "expanded": expanded,
    "size 1": single,
}


# Kernels that read and write beyond the memory of tensors whose sizes contradict each other.
UNCHECKED = {"max_pool2d_with_indices_backward", "max_pool3d_with_indices_backward"}


class Asking(torch.nn.Module):
    """A case that notes the strides of its results, where no export restores what was there."""

    def __init__(self, case: Case) -> None:
        super().__init__()
        self.function = case.function
        self.found: queue.SimpleQueue[Strides] = queue.SimpleQueue()

    def forward(self, *tensors: Tensor) -> Any:
        results = self.function(*tensors)
        self.found.put(
            [
                x.stride()
                for x in pytree.tree_leaves(results)
                if isinstance(x, Tensor) and x.layout is torch.strided and not x.is_quantized
            ]
        )
        return results

    def last(self) -> Strides:
        """The strides of the last run that got so far; none if no run did."""
        found: Strides = []
        while not self.found.empty():
            found = self.found.get_nowait()
        return found


@torch.no_grad()
def outcome(case: Case) -> str:
    """Returns "same", "refused: ..." or "differs: ..."; "" if eager rejects the inputs."""
    asking = Asking(case).eval()
    try:
        asking(*case.inputs)
    except Exception:
        return ""
    expected = asking.last()
    try:
        _capture.capture(asking, _inputs.Inputs(case.inputs, None, None, [None] * len(case.inputs)))
    except _recorder.StepAsideError as error:
        return f"refused: {error}"
    found = asking.last()
    return "same" if found == expected else f"differs: {found} instead of {expected}"


def outcomes(row: Row) -> Iterator[tuple[str, str]]:
    """Yields the layouts of each sample with the outcome."""
    for test in row.tests():
        if test == "dynamic" or test in row.xfails:
            continue
        for case in row.samples(test):
            done = set()
            for name, layout in LAYOUTS.items():
                if layout is single and row.title in UNCHECKED:
                    continue
                inputs = tuple(layout(x) for x in case.inputs)
                key = tuple((x.shape, x.stride()) for x in inputs)
                if key in done:
                    continue
                done.add(key)
                torch.manual_seed(0)
                if found := outcome(Case(case.function, *inputs)):
                    yield f"{test}, {name}", found


def main() -> None:
    counts: collections.Counter[str] = collections.Counter()
    operators: collections.Counter[str] = collections.Counter()
    for row in chosen_rows(__doc__):
        kinds = set()
        for name, found in outcomes(row):
            kind = found.partition(": ")[0]
            counts[kind] += 1
            kinds.add(kind)
            if kind == "differs":
                print(f"- {row.title}, {name}: {found}", flush=True)
        operators["tried"] += bool(kinds)
        operators.update(kinds - {"same"})
    print("samples:", ", ".join(f"{kind} {number}" for kind, number in sorted(counts.items())))
    print("operators:", ", ".join(f"{kind} {number}" for kind, number in operators.items()))


if __name__ == "__main__":
    main()
