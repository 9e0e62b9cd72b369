"""Measures exports of loops over a dynamic size, and what the models cost.

    python benchmarks/loops.py

For hand-written cells over a sequence: seconds of an export for examples of several lengths, and
milliseconds of a run in ONNX Runtime beside eager PyTorch and beside the model that is unrolled for
the example. Times are the best of several runs by turns in one process.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import onnx_native
import onnxruntime
import torch
from torch import Tensor, nn

BATCH, HIDDEN = 8, 64
LENGTHS = (16, 256, 4096)
STEPS = 64
RUNS = 20


class Lstm(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.LSTMCell(HIDDEN, HIDDEN)

    def forward(self, x: Tensor) -> Tensor:
        h = c = x.new_zeros(x.shape[0], HIDDEN)
        out = []
        for t in range(x.shape[1]):
            h, c = self.cell(x[:, t], (h, c))
            out.append(h)
        return torch.stack(out, 1)


class Gru(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.GRUCell(HIDDEN, HIDDEN)

    def forward(self, x: Tensor) -> Tensor:
        h = x.new_zeros(x.shape[0], HIDDEN)
        for row in x.unbind(1):
            h = self.cell(row, h)
        return h


class Sru(nn.Module):
    """A simple recurrent unit, whose projections are outside of the loop."""

    def __init__(self) -> None:
        super().__init__()
        self.project = nn.Linear(HIDDEN, 3 * HIDDEN)

    def forward(self, x: Tensor) -> Tensor:
        value, forget, reset = self.project(x).chunk(3, -1)
        forget, reset = forget.sigmoid(), reset.sigmoid()
        c = x.new_zeros(x.shape[0], HIDDEN)
        out = torch.empty_like(x)
        for t in range(x.size(1)):
            c = forget[:, t] * c + (1 - forget[:, t]) * value[:, t]
            out[:, t] = reset[:, t] * c.tanh() + (1 - reset[:, t]) * x[:, t]
        return out


def exported(module: nn.Module, length: int, dynamic: bool = True) -> Any:
    shapes = ({0: "batch", 1: "n"},) if dynamic else None
    example = (torch.randn(BATCH, length, HIDDEN),)
    return torch.onnx.export(module, example, dynamo=True, dynamic_shapes=shapes, verbose=False)


def best(run: Callable[[], Any]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def session(program: Any) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    return onnxruntime.InferenceSession(program.model_proto.SerializeToString(), options)


def measure(module: nn.Module) -> None:
    name = type(module).__name__
    exported(module, 4)
    seconds = {}
    for length in LENGTHS:
        start = time.perf_counter()
        program = exported(module, length)
        seconds[length] = time.perf_counter() - start
        assert program.export_report["capture"]["rolled"]
    x = torch.randn(BATCH, STEPS, HIDDEN)
    rolled = session(exported(module, 4))
    unrolled = session(exported(module, STEPS, dynamic=False))
    feeds = {rolled.get_inputs()[0].name: x.numpy()}
    with torch.no_grad():
        runs = {
            "eager": lambda: module(x),
            "rolled": lambda: rolled.run(None, feeds),
            "unrolled": lambda: unrolled.run(None, feeds),
        }
        times = {key: min(best(run) for _ in range(RUNS)) for key, run in runs.items()}
    exports = ", ".join(f"{length}: {value:.2f}" for length, value in seconds.items())
    steps = ", ".join(f"{key} {1e3 * value / STEPS:.3f}" for key, value in times.items())
    print(f"{name}: seconds of an export at length {exports}; milliseconds of a step: {steps}")


def main() -> None:
    torch.ops.load_library(onnx_native.library_path())
    torch.manual_seed(0)
    for kind in (Lstm, Gru, Sru):
        measure(kind().eval())


if __name__ == "__main__":
    main()
