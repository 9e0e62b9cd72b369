"""Measures how an export grows with its program: seconds, resident memory and the file's size at n,
2n and 4n, each in a process of its own. An exponent of 1 is linear growth.

    python benchmarks/growth.py                     # all programs, in one table
    python benchmarks/growth.py --scale 0.1 chain   # smaller ones, of one kind
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import math
import pathlib
import resource
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from typing import Any

import onnx_native
import torch
from torch import Tensor, nn

STEPS = (1, 2, 4)
Program = tuple[Any, tuple[Tensor, ...], dict[str, Any]]


class Parallel(nn.Module):
    def __init__(self, count: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(4, 4) for _ in range(count))

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([layer(x) for layer in self.layers], 1)


class SliceWrites(nn.Module):
    def __init__(self, count: int) -> None:
        super().__init__()
        self.count = count

    def forward(self, x: Tensor) -> Tensor:
        y = torch.zeros_like(x)
        for i in range(self.count):
            y[:, i] = x[:, i] * 2
        return y


class Nested(nn.Module):
    def __init__(self, depth: int) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.inner = Nested(depth - 1) if depth > 1 else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        return x + self.inner(self.linear(x).relu())


class Outputs(nn.Module):
    def forward(self, x: Tensor) -> Any:
        return x.unbind(0)


class Results(nn.Module):
    def __init__(self, count: int) -> None:
        super().__init__()
        self.count = count

    def forward(self, x: Tensor) -> Any:
        return [x + i for i in range(self.count)]


class Chain(nn.Module):
    def __init__(self, count: int) -> None:
        super().__init__()
        self.count = count

    def forward(self, x: Tensor) -> Tensor:
        for _ in range(self.count):
            x = x.sin()
        return x


def lines(count: int) -> Program:
    """A scripted program of so many lines."""
    body = "".join(f"    x = x * {i % 7 + 1} + {i % 5}\n" for i in range(count))
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "written.py"
        path.write_text("import torch\n\ndef forward(x):\n" + body + "    return x\n")
        spec = importlib.util.spec_from_file_location("written", path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        script = torch.jit.script(module.forward)
    return script, (torch.randn(2, 4),), {}


def dynamic(module: nn.Module, x: Tensor) -> Program:
    return module.eval(), (x,), {"dynamic_shapes": ({0: "batch"},)}


# The program of a size, and the largest size.
PROGRAMS: dict[str, tuple[Callable[[int], Program], int]] = {
    "parallel layers": (lambda n: dynamic(Parallel(n), torch.randn(2, 4)), 4_000),
    "slice writes": (lambda n: dynamic(SliceWrites(n), torch.randn(2, n)), 800),
    "nested modules": (lambda n: dynamic(Nested(n), torch.randn(2, 4)), 400),
    "lines of TorchScript": (lines, 50_000),
    "outputs": (lambda n: (Outputs(), (torch.randn(n, 1),), {}), 64_000),
    "results": (lambda n: (Results(n), (torch.randn(2, 1),), {}), 160_000),
    "chain": (lambda n: dynamic(Chain(n), torch.randn(2, 4)), 100_000),
}
QUANTITIES = {"seconds": "s", "memory": "MB", "file": "MB"}


def resident() -> float:
    """The largest resident memory of this process so far, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6


def measure(name: str, size: int) -> None:
    """Prints the quantities of one export as JSON."""
    warnings.simplefilter("ignore")
    torch.ops.load_library(onnx_native.library_path())
    torch.set_num_threads(1)
    sys.setrecursionlimit(100_000)
    small, inputs, options = PROGRAMS[name][0](2)
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "model.onnx"
        torch.onnx.export(small, inputs, path, dynamo=True, verbose=False, **options)
        program, inputs, options = PROGRAMS[name][0](size)
        before, start = resident(), time.process_time()
        torch.onnx.export(program, inputs, path, dynamo=True, verbose=False, **options)
        seconds = time.process_time() - start
        memory, file = resident() - before, path.stat().st_size / 1e6
    print(json.dumps({"seconds": seconds, "memory": memory, "file": file}))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help=f"of {', '.join(PROGRAMS)}")
    parser.add_argument("--scale", type=float, default=1, help="a factor of all sizes")
    parser.add_argument("--measure", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        measure(options.names[0], options.measure)
        return
    print("| program | n | " + " | ".join(f"{q}, {unit}" for q, unit in QUANTITIES.items()) + " |")
    print("| --- " * (2 + len(QUANTITIES)) + "|")
    for name in options.names or PROGRAMS:
        sizes = [int(PROGRAMS[name][1] * options.scale) * step // STEPS[-1] for step in STEPS]
        runs = []
        for size in sizes:
            command = [sys.executable, __file__, name, "--measure", str(size)]
            run = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
            runs.append(json.loads(run.stdout.splitlines()[-1]))
        cells = []
        for quantity in QUANTITIES:
            values = [max(run[quantity], 1e-3) for run in runs]
            exponent = math.log2(values[-1] / values[-2])
            cells.append(" / ".join(f"{v:.3g}" for v in values) + f", exponent {exponent:.2f}")
        print(f"| {name} | {sizes[-1]:,} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
