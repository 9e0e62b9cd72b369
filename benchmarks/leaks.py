"""Measures how resident memory grows with the exports of one program, in KiB per export.

A script, a native capture and a .pt2 archive each have a process of their own.

    python benchmarks/leaks.py               # 200 exports of each
    python benchmarks/leaks.py --exports 50 script
"""

from __future__ import annotations

import argparse
import gc
import pathlib
import resource
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable

import onnx_native
import torch
from torch import nn

WARM_UP = 20  # exports that fill caches


def layers() -> nn.Module:
    return nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4)).eval()


X = torch.randn(2, 8)


def module_export(module: nn.Module) -> Callable[[], object]:
    return lambda: torch.onnx.export(module, (X,), dynamo=True, verbose=False)


def archive_export() -> Callable[[], object]:
    folder = tempfile.mkdtemp()
    path = pathlib.Path(folder) / "program.pt2"
    torch.export.save(torch.export.export(layers(), (X,)), path)
    return lambda: onnx_native._C.Program(str(path), opset=20).serialize()


KINDS: dict[str, Callable[[], Callable[[], object]]] = {
    "native capture": lambda: module_export(layers()),
    "script": lambda: module_export(torch.jit.script(layers())),
    "archive": archive_export,
}


def resident() -> float:
    """The resident memory of this process, in KiB."""
    pages = int(pathlib.Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 1024


def measure(kind: str, exports: int) -> None:
    warnings.simplefilter("ignore")
    torch.ops.load_library(onnx_native.library_path())
    torch.set_num_threads(1)
    export = KINDS[kind]()
    for _ in range(WARM_UP):
        export()
    gc.collect()
    before = resident()
    for _ in range(exports):
        export()
    gc.collect()
    print(f"{kind}: {(resident() - before) / exports:.1f} KiB per export, {exports} exports")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kinds", nargs="*", help=f"of {', '.join(KINDS)}")
    parser.add_argument("--exports", type=int, default=200)
    parser.add_argument("--measure", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        measure(options.kinds[0], options.exports)
        return
    for kind in options.kinds or KINDS:
        command = [sys.executable, __file__, kind, "--measure", "--exports", str(options.exports)]
        subprocess.run(command, check=True)


if __name__ == "__main__":
    main()
