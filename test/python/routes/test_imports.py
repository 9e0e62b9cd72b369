"""What an export imports: TorchDynamo takes seconds, and only torch.export needs it."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys

import onnx_native
import pytest

PROGRAM = """
import sys
import onnx_native
import torch
from torch import nn


class Computes(nn.Module):
    def forward(self, x):
        return x * 2


class Branches(nn.Module):  # TorchScript
    def forward(self, x):
        if x.sum() > 0:
            return x + 1
        return x - 1


class Checks(nn.Module):  # native, both ways: TorchScript cannot compile it
    def forward(self, x):
        if not torch._is_all_true(x < 1e9):
            raise ValueError(f"large: {[*map(str, x)]}")
        return x.view(*[2, -1])


class Fixes(nn.Module):  # native, at other sizes
    def forward(self, x):
        return x * 2 if x.shape[0] == 2 else x + x


class Keeps(nn.Module):  # recorded twice
    last = None

    def forward(self, x):
        self.last = x + 1
        return self.last * 2


class Counts(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("count", torch.zeros(()))

    def forward(self, x):
        self.count += 1
        return x * self.count


x = torch.ones(2, 3)
torch.ops.load_library(onnx_native.library_path())
for module in (Computes(), Branches(), Checks(), Fixes(), Keeps(), Counts()):
    shapes = ({0: "n"},) if type(module) is Fixes else None
    with onnx_native.options(branches="example"):
        program = torch.onnx.export(
            module.eval(), (x,), dynamo=True, dynamic_shapes=shapes, verbose=False, verify=True
        )
    attempt = program.export_report["capture"]["attempts"][-1]["route"]
    imported = sorted({"torch._dynamo", "torch._inductor"} & sys.modules.keys())
    print(type(module).__name__, "|", attempt, "|", *imported)
for script in (torch.jit.script(Branches()), torch.jit.trace(Computes(), (x,))):
    torch.onnx.export(script, (x,), dynamo=True, verbose=False, verify=True)
print("scripts |  |", *sorted({"torch._dynamo", "torch._inductor"} & sys.modules.keys()))
"""


@pytest.fixture(scope="module")
def printed(tmp_path_factory: pytest.TempPathFactory) -> list[list[str]]:
    """What the program prints: for each module its class, the route, and the imports."""
    path = tmp_path_factory.mktemp("imports") / "program.py"
    path.write_text(PROGRAM)
    package = pathlib.Path(onnx_native.__file__).parents[1]
    own = {name: value for name, value in os.environ.items() if not name.startswith("ONNX_NATIVE")}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", path],
        env={**own, "PYTHONPATH": str(package)},
        check=True,
        timeout=300,
        stdout=subprocess.PIPE,
    )
    lines = done.stdout.decode().splitlines()
    return [[word.strip() for word in line.split("|")] for line in lines if line.count("|") == 2]


def test_routes(printed: list[list[str]]) -> None:
    assert [line[:2] for line in printed] == [
        ["Computes", "native"],
        ["Branches", "TorchScript"],
        ["Checks", "native, both ways"],
        ["Fixes", "native, at other sizes"],
        ["Keeps", "native"],
        ["Counts", "native"],
        ["scripts", ""],
    ]


def test_only_torch_export_imports_the_compiler(printed: list[list[str]]) -> None:
    assert [line for line in printed if line[2]] == []
