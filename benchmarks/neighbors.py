"""Runs and trains models in two threads while others are exported, and counts what differs.

Each result is compared, to the bit, with that of a quiet process.

    python benchmarks/neighbors.py                # 20 seconds for each kind of export
    python benchmarks/neighbors.py --seconds 60 native
"""

from __future__ import annotations

import argparse
import copy
import threading
import time
import warnings
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import onnx_native
import torch
from torch import Tensor, nn


class Branch(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.relu() if x.sum() > 0 else x.sigmoid()


class Fails(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x @ x.new_ones(3, 3) @ x.new_ones(7, 7)


class Loss(nn.Module):
    """Leaves the native capture, which records no gradients here."""

    def forward(self, x: Tensor) -> Tensor:
        y = x.detach().requires_grad_()
        return torch.autograd.grad(y.pow(3).sum(), y)[0]


class SelfAttention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.heads = nn.MultiheadAttention(32, 4, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        return self.heads(x, x, x)[0]


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(32, 16, batch_first=True, bidirectional=True)

    def forward(self, x: Tensor) -> Tensor:
        return self.lstm(x)[0]


def neighbors() -> dict[str, tuple[nn.Module, Tensor]]:
    """The models of the other threads, whose kernels an export could change."""
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(32, 4, 64, dropout=0.0, batch_first=True)
    convolutions = nn.Sequential(
        nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 4, 3)
    )
    models: dict[str, tuple[nn.Module, Tensor]] = {
        "attention": (
            nn.TransformerEncoder(layer, 2, enable_nested_tensor=False),
            torch.randn(2, 9, 32),
        ),
        "heads": (SelfAttention(), torch.randn(2, 9, 32)),
        "recurrent": (Recurrent(), torch.randn(2, 9, 32)),
        "convolutions": (convolutions, torch.randn(2, 3, 12, 12)),
    }
    return {name: (module.eval(), x) for name, (module, x) in models.items()}


def inferred(module: nn.Module, x: Tensor) -> list[Tensor]:
    with torch.inference_mode():
        return [module(x)]


def trained(module: nn.Module, x: Tensor) -> list[Tensor]:
    """The parameters after three steps."""
    learner = copy.deepcopy(module).train()
    optimizer = torch.optim.AdamW(learner.parameters(), lr=1e-2)
    for _ in range(3):
        optimizer.zero_grad()
        learner(x).square().mean().backward()
        optimizer.step()
    return [parameter.detach() for parameter in learner.parameters()]


def exports() -> dict[str, Callable[[], object]]:
    vector, rows = torch.randn(2, 5), torch.randn(2, 9, 32)

    def export(module: nn.Module, x: Tensor) -> object:
        shapes = ({0: torch.export.Dim.DYNAMIC},)
        return torch.onnx.export(module, (x,), dynamo=True, verbose=False, dynamic_shapes=shapes)

    def failing() -> None:
        try:
            export(Fails(), vector)
        except Exception:
            return
        raise AssertionError("the export of a wrong program succeeded")

    return {
        "nothing": lambda: time.sleep(0.01),
        "native": lambda: [export(module, x) for module, x in neighbors().values()],
        "branch": lambda: export(Branch(), vector),
        "script": lambda: export(torch.jit.script(Branch()), vector),
        "failing": failing,
        "torch.export": lambda: export(Loss(), rows),
    }


def same(a: list[Tensor], b: list[Tensor]) -> bool:
    return all(x.dtype == y.dtype and torch.equal(x, y) for x, y in zip(a, b, strict=True))


def measure(kind: str, seconds: float) -> None:
    models, export = neighbors(), exports()[kind]
    works = {
        title: (function, {name: function(*models[name]) for name in models})
        for title, function in (("inferences", inferred), ("trainings", trained))
    }
    stop = threading.Event()

    def work(title: str) -> Counter[str]:
        function, expected = works[title]
        counts: Counter[str] = Counter()
        while not stop.is_set():
            for name, (module, x) in models.items():
                counts["runs"] += 1
                try:
                    differs = not same(function(module, x), expected[name])
                    counts["differ"] += differs
                    if differs:
                        counts[name] += 1
                except Exception as error:
                    counts["failed"] += 1
                    counts[f"{type(error).__name__}: {str(error)[:60]}"] += 1
        return counts

    count = 0
    with ThreadPoolExecutor(len(works)) as pool:
        results = {title: pool.submit(work, title) for title in works}
        end = time.monotonic() + seconds
        try:
            while time.monotonic() < end:
                export()
                count += 1
        finally:
            stop.set()
    print(f"{kind}: {count} exports")
    for title, result in results.items():
        counts = result.result()
        runs, differ, failed = (counts.pop(name, 0) for name in ("runs", "differ", "failed"))
        print(f"  {title}: {runs}, {differ} differ, {failed} fail", *counts.items(), flush=True)


def main() -> None:
    kinds = list(exports())
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kinds", nargs="*", help=f"of {', '.join(kinds)}")
    parser.add_argument("--seconds", type=float, default=20)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.ops.load_library(onnx_native.library_path())
    torch.set_num_threads(1)
    for kind in options.kinds or kinds:
        measure(kind, options.seconds)


if __name__ == "__main__":
    main()
