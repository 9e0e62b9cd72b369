"""A capture does not depend on the captures before it in the process."""

from __future__ import annotations

import importlib
import json
import pathlib
import subprocess
import sys
from typing import Any

import onnx_native
import pytest
import torch
from models.recording import exported
from torch import nn

# A library that the program gives a size, a program, and programs that come before it.
_LIBRARY = """
def halved(n):
    return int(n) // 2 if isinstance(n, int) else n


def shown(n):
    if len(range(3)) != 3:
        raise ValueError(f"wrong size {n}")
    return max(n, 2)
"""
_PROGRAM = """
import torch
import sizes_of_a_library


class Program(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)
        torch.nn.init.ones_(self.linear.weight)
        torch.nn.init.ones_(self.linear.bias)

    def forward(self, x):
        n = sizes_of_a_library.halved(x.shape[0]) + sizes_of_a_library.shown(x.shape[1])
        count = (x > 0).sum().item()
        return self.linear(x) * n + torch.tensor([n, x.shape[1]]).sum() * count, x[:, -1:].nonzero()


class Other(torch.nn.Module):
    def __init__(self, kind):
        super().__init__()
        self.kind = kind

    def forward(self, x):
        if self.kind % 4 == 1:
            return x * int(sizes_of_a_library.shown(x.shape[0]) * 1.5)
        if self.kind % 4 == 2:
            return x[x > 0], torch.arange(len(x))
        if self.kind % 4 == 3 and x.sum() > self.kind:
            return x + 1
        return x.numpy() if self.kind % 8 == 4 else x.flip(0) + self.kind
"""
_RUN = """
import json, sys
sys.path[:0] = [{folder!r}, {tests!r}]
import torch, onnx_native
torch.ops.load_library(onnx_native.library_path())
import program_of_sizes as programs
from models import recording
from torch.export import Dim
shapes = ({{0: Dim("batch"), 1: "n"}},)
for kind in range({others}):
    dynamic = shapes if kind % 3 else None
    recording.reason_or_none(programs.Other(kind), (torch.ones(3, 5),), dynamic)
x = torch.ones(3, 5, 4)
found = torch.onnx.export(
    programs.Program(), (x,), dynamo=True, dynamic_shapes=shapes, verbose=False
)
report = found.export_report["capture"]
print(json.dumps([str(found.model_proto), report["by"], report["reason"], report["guards"]]))
"""


def _captured(folder: pathlib.Path, others: int) -> Any:
    tests = str(pathlib.Path(__file__).parent.parent)
    code = _RUN.format(folder=str(folder), tests=tests, others=others)
    command = [sys.executable, "-W", "ignore", "-c", code]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_a_program_is_captured_alike_in_a_fresh_process_and_after_a_hundred(
    tmp_path: pathlib.Path,
) -> None:
    (tmp_path / "sizes_of_a_library.py").write_text(_LIBRARY)
    (tmp_path / "program_of_sizes.py").write_text(_PROGRAM)
    fresh = _captured(tmp_path, 0)
    assert fresh[1:3] == ["native", None]
    assert _captured(tmp_path, 100) == fresh


_CHECKED = """
import torch


class Checked(torch.nn.Module):
    def forward(self, x):
        n = x.shape[0]
{check}
        return x + n
"""


def test_the_text_of_a_program_is_read_again_when_it_changes(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "checked_program.py"
    file.write_text(_CHECKED.format(check="        print(f'{n}')"))
    monkeypatch.syspath_prepend(str(tmp_path))
    program: Any = importlib.import_module("checked_program")
    shapes = ({0: "n"},)
    exported(program.Checked(), (torch.ones(3),), shapes)
    # The text is on another line, and in a file of another length.
    file.write_text(_CHECKED.format(check="\n\n        a = 1\n        print('n is', f'{n}')"))
    program = importlib.reload(program)
    module: nn.Module = program.Checked()
    found = exported(module, (torch.ones(3),), shapes)
    assert found.export_report["capture"]["by"] == "native"


def on_a_default_device(x: torch.Tensor) -> torch.Tensor:
    with torch.device("cpu"):
        return x + torch.tensor([1.0, 2.0]) + torch.ones(2)


def asks_what_may_be_overridden(x: torch.Tensor) -> torch.Tensor:
    functions = torch.overrides.get_overridable_functions()
    known = torch.overrides.is_tensor_method_or_property(torch.Tensor.add)
    return x + (1 if known and functions else 2)


def asks_beside_a_branch(x: torch.Tensor) -> torch.Tensor:
    x = asks_what_may_be_overridden(x)
    return x + 1 if x.sum() > 0 else x


@pytest.mark.parametrize(
    ("program", "capture"),
    [
        (on_a_default_device, "native"),
        (asks_what_may_be_overridden, "native"),
        (asks_what_may_be_overridden, "torch.export"),
        (asks_beside_a_branch, "auto"),
    ],
)
def test_lists_of_functions_hold_those_of_pytorch(program: Any, capture: Any) -> None:
    """A program that is the first to need such a list makes PyTorch remember it."""
    lists = (
        torch.utils._device._device_constructors,
        torch.overrides.get_ignored_functions,
        lambda: torch.overrides.get_testing_overrides().keys(),
        torch.overrides.get_overridable_functions,
        torch.overrides._get_tensor_methods,
    )
    made_once = (
        torch.utils._device._device_constructors,
        torch.overrides.get_ignored_functions,
        torch.overrides.get_testing_overrides,
        torch.overrides._get_overridable_functions,
        torch.overrides._get_tensor_methods,
    )

    def forget() -> None:
        for each in made_once:
            each.cache_clear()

    importlib.import_module("torch._dynamo")  # puts a function of its own in place for good
    forget()
    before = [each() for each in lists]
    forget()
    x = torch.randn(3, 2)
    with onnx_native.options(capture=capture):
        result: Any = torch.onnx.export(program, (x,), dynamo=True, verbose=False)
    torch.testing.assert_close(result(x)[0], program(x))
    assert [each() for each in lists] == before
    with torch.device("meta"):
        assert torch.tensor([1.0]).device.type == "meta"
