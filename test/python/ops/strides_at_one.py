"""Compares the strides that the native capture answers with eager's where a dynamic size is 1.

    PYTHONPATH=build/python:test/python python -m ops.strides_at_one [--each 5] [--part 0/2]

One size of each sample is dynamic. The program permutes its inputs and reads the strides of all
results. Where the guards allow the size 1, the answers must be eager's.
"""

from __future__ import annotations

import collections
import queue
from collections.abc import Callable, Iterator
from typing import Any

import torch
from onnx_native import _library
from onnx_native.recording import _capture, _recorder
from onnx_native.request import _inputs
from torch.utils import _pytree as pytree

from ops.captured import chosen_rows
from ops.row import Case, Row

Tensor = torch.Tensor
Order = Callable[[int], list[int]]
PACKED = torch.contiguous_format  # also strides of size 1 are those of the sizes

# The order of the axes in memory, by the rank.
ORDERS: dict[str, Order] = {
    "contiguous": lambda rank: list(range(rank)),
    "transposed": lambda rank: [*range(rank - 2), *range(rank - 1, max(rank - 3, -1), -1)],
    "reversed": lambda rank: [rank - 1, *range(rank - 1)] if rank > 2 else [*range(rank)][::-1],
    "channels last": lambda rank: [0, *range(2, rank), 1] if rank > 2 else list(range(rank)),
}


def inverse(order: list[int]) -> list[int]:
    return sorted(range(len(order)), key=order.__getitem__)


class Asking(torch.nn.Module):
    """A case whose inputs are permuted, and which returns answers about its results."""

    def __init__(self, case: Case, order: Order, question: Callable[[Tensor], Any]) -> None:
        super().__init__()
        self.function, self.order, self.question = case.function, order, question
        # No export restores what was there.
        self.found: queue.SimpleQueue[list[int | str]] = queue.SimpleQueue()

    def stored(self, tensors: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        return tuple(x.permute(self.order(x.dim())).clone(memory_format=PACKED) for x in tensors)

    def forward(self, *tensors: Tensor) -> Any:
        results = self.function(*(x.permute(inverse(self.order(x.dim()))) for x in tensors))
        found: list[int | str] = [
            _library.extension().text_of_size(each) if hasattr(each, "node") else int(each)
            for x in pytree.tree_leaves(results)
            if isinstance(x, Tensor) and x.layout is torch.strided and not x.is_quantized
            for each in self.question(x)
        ]
        self.found.put(found)
        return results

    def last(self) -> list[int | str]:
        """The answers of the last run that got so far; none if no run did."""
        found: list[int | str] = []
        while not self.found.empty():
            found = self.found.get_nowait()
        return found


QUESTIONS: dict[str, Callable[[Tensor], Any]] = {
    "stride": lambda x: x.stride(),
    "contiguous": lambda x: [1 if x.is_contiguous() else 0],
    "channels last": lambda x: (
        [1 if x.is_contiguous(memory_format=torch.channels_last) else 0] if x.dim() == 4 else []
    ),
}


def with_size_one(x: Tensor, size: int) -> Tensor:
    for axis, length in enumerate(x.shape):
        if length == size:
            x = x.narrow(axis, 0, 1)
    return x.contiguous()


def answers(module: Asking, tensors: tuple[Tensor, ...]) -> list[Any]:
    module(*tensors)
    return module.last()


@torch.no_grad()
def outcome(module: Asking, case: Case, size: int) -> str:
    """Returns "same", "guarded", "refused: ..." or "differs: ..."; "" if eager rejects inputs."""
    inputs = module.stored(case.inputs)
    at_one = module.stored(tuple(with_size_one(x, size) for x in case.inputs))
    try:
        if not answers(module, inputs):
            return ""
        expected = answers(module, at_one)
    except Exception:
        return ""
    specs = [{i: "n" for i, length in enumerate(x.shape) if length == size} or None for x in inputs]
    try:
        found = _capture.capture(module, _inputs.Inputs(inputs, None, tuple(specs), specs))
    except _recorder.StepAsideError as error:
        return f"refused: {error}"
    native = found.native
    if not found.sizes or not native.sizes.allows({"n": 1}):
        return "guarded"
    texts = module.last()
    if "" in texts:
        return "refused: unknown strides"
    got = [
        native.sizes.evaluate(each, {"n": 1}) if isinstance(each, str) else each for each in texts
    ]
    return "same" if got == expected else f"differs: {texts} instead of {expected}"


def outcomes(row: Row) -> Iterator[tuple[str, str]]:
    """Yields the layouts of each sample with the outcome."""
    for test in row.tests():
        if test in ("dynamic", "int64", "bool", "float16") or test in row.xfails:
            continue
        for case in row.samples(test):
            shape_seen = set()
            for name, order in ORDERS.items():
                key = tuple(tuple(order(x.dim())) for x in case.inputs)
                if key in shape_seen:
                    continue
                shape_seen.add(key)
                sizes = sorted({n for x in case.inputs for n in x.shape if n > 1})[:3]
                for size in sizes:
                    for asked, question in QUESTIONS.items():
                        torch.manual_seed(0)
                        module = Asking(case, order, question).eval()
                        if found := outcome(module, case, size):
                            shapes = [tuple(x.shape) for x in case.inputs]
                            yield f"{test}, {name}, {asked} of {shapes} at {size}", found


def main() -> None:
    counts: collections.Counter[str] = collections.Counter()
    operators: collections.Counter[str] = collections.Counter()
    reasons: collections.Counter[str] = collections.Counter()
    for row in chosen_rows(__doc__):
        kinds = set()
        for name, found in outcomes(row):
            kind, _, reason = found.partition(": ")
            counts[kind] += 1
            kinds.add(kind)
            if kind == "refused":
                reasons[reason[:90]] += 1
            if kind == "differs":
                print(f"- {row.title}, {name}: {found}", flush=True)
        operators["tried"] += bool(kinds)
        operators.update(kinds - {"same"})
    for reason, number in reasons.most_common(30):
        print(number, reason)
    print("samples:", ", ".join(f"{kind} {number}" for kind, number in sorted(counts.items())))
    print("operators:", ", ".join(f"{kind} {number}" for kind, number in operators.items()))


if __name__ == "__main__":
    main()
