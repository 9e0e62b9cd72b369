"""Measures exports of loops over a dynamic size, and what the models cost.

    python benchmarks/loops.py

For hand-written cells over a sequence: seconds of an export for examples of several lengths, and
milliseconds of a step in ONNX Runtime beside eager PyTorch, beside the model that is unrolled for
the example, and beside a model in which the cells of LSTM and GRU stay Scans. Times are the best of
several runs by turns in one process.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from typing import Any

import onnx_native
import onnxruntime
import torch
from torch import Tensor, nn

SIZES = ((8, 64), (1, 256))  # batch and channels
LENGTHS = (16, 256, 4096)
STEPS = 64
RUNS = 20


class Lstm(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.cell = nn.LSTMCell(channels, channels)

    def forward(self, x: Tensor) -> Tensor:
        h = c = x.new_zeros(x.shape[0], x.shape[2])
        out = []
        for t in range(x.shape[1]):
            h, c = self.cell(x[:, t], (h, c))
            out.append(h)
        return torch.stack(out, 1)


class Gru(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.cell = nn.GRUCell(channels, channels)

    def forward(self, x: Tensor) -> Tensor:
        h = x.new_zeros(x.shape[0], x.shape[2])
        for row in x.unbind(1):
            h = self.cell(row, h)
        return h


class Sru(nn.Module):
    """A simple recurrent unit, whose projections are outside of the loop."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.project = nn.Linear(channels, 3 * channels)

    def forward(self, x: Tensor) -> Tensor:
        value, forget, reset = self.project(x).chunk(3, -1)
        forget, reset = forget.sigmoid(), reset.sigmoid()
        c = x.new_zeros(x.shape[0], x.shape[2])
        out = torch.empty_like(x)
        for t in range(x.size(1)):
            c = forget[:, t] * c + (1 - forget[:, t]) * value[:, t]
            out[:, t] = reset[:, t] * c.tanh() + (1 - reset[:, t]) * x[:, t]
        return out


def exported(module: nn.Module, x: Tensor, dynamic: bool = True) -> Any:
    shapes = ({0: "batch", 1: "n"},) if dynamic else None
    return torch.onnx.export(module, (x,), dynamo=True, dynamic_shapes=shapes, verbose=False)


def best(run: Callable[[], Any]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def session(program: Any) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    return onnxruntime.InferenceSession(program.model_proto.SerializeToString(), options)


def measure(kind: Any, batch: int, channels: int) -> None:
    module = kind(channels).eval()
    exported(module, torch.randn(batch, 4, channels))
    seconds = {}
    for length in LENGTHS:
        start = time.perf_counter()
        program = exported(module, torch.randn(batch, length, channels))
        seconds[length] = time.perf_counter() - start
        assert program.export_report["capture"]["rolled"]
    x = torch.randn(batch, STEPS, channels)
    sessions = {"rolled": session(exported(module, x))}
    sessions["unrolled"] = session(exported(module, x, dynamic=False))
    with onnx_native.options(disabled_passes=("recurrences",)):
        sessions["Scan"] = session(exported(module, x))
    feeds = {sessions["rolled"].get_inputs()[0].name: x.numpy()}
    with torch.no_grad():
        times = {"eager": min(best(lambda: module(x)) for _ in range(RUNS))}
    times |= dict.fromkeys(sessions, float("inf"))
    for _ in range(RUNS):  # threads of ONNX Runtime wait busily, beside which eager is slow
        for name, each in sessions.items():
            times[name] = min(times[name], best(functools.partial(each.run, None, feeds)))
    exports = ", ".join(f"{length}: {value:.2f}" for length, value in seconds.items())
    steps = ", ".join(f"{name} {1e3 * value / STEPS:.3f}" for name, value in times.items())
    print(f"{kind.__name__}, batch {batch}, {channels} channels")
    print(f"  seconds of an export at length {exports}")
    print(f"  milliseconds of a step: {steps}")


def main() -> None:
    torch.ops.load_library(onnx_native.library_path())
    torch.manual_seed(0)
    for kind in (Lstm, Gru, Sru):
        for sizes in SIZES:
            measure(kind, *sizes)


if __name__ == "__main__":
    main()
