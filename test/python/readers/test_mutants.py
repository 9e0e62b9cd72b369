"""Programs with other operators, dtypes, ranks, sizes and counts than PyTorch recorded.

An export ends with a model or an error that is not internal, in little memory. More mutants:
`python -m readers.mutants`.
"""

import os
import pathlib
import subprocess
import sys

import onnx_native
import pytest
import torch

from readers import mutants

C = onnx_native._C


@pytest.mark.parametrize(("kind", "count"), [("pt2", 70), ("jit", 60)])
def test_mutants(tmp_path: pathlib.Path, kind: str, count: int):
    programs = list(mutants.KINDS[kind][0](few=True))
    verdicts = set()
    for seed in range(count):
        outcome = mutants.outcome(tmp_path / "mutant", mutants.mutant(kind, programs, seed))
        assert not outcome.is_finding, f"seed {seed}: {outcome.verdict}: {outcome.output}"
        verdicts.add(outcome.verdict)
    assert {"exported", "refused"} <= verdicts


class Product(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(4, 3)

    def forward(self, x):
        return self.linear(x) + 1


class Comparison(torch.nn.Module):
    def forward(self, x):
        if x > 0:
            return x + 1
        return x


class Bits(torch.nn.Module):
    def forward(self, x):
        return (x ^ 1) | (x & 2)


class Expands(torch.nn.Module):
    def forward(self, x):
        return x.unsqueeze(1).expand(x.size(0), 3, 8)


class SelectsFromACount(torch.nn.Module):
    def forward(self, x):
        y = torch.count_nonzero(x)
        for i in range(x.size(0)):
            x = x + y.select(0, i)
        return x


HUGE = (1 << 62) - 1


@pytest.mark.parametrize(
    ("module", "sizes", "kind", "message"),
    [
        (Product(), ["n", 5], "invalid program", r"PyTorch rejects this call: .*\b5\b.*\b4\b"),
        (Product(), ["n", 1 << 40], "invalid program", "PyTorch rejects this call: "),
        # PyTorch's kernels cannot be asked for these.
        (Product(), ["n", HUGE], "invalid program", f"sizes {HUGE} and 4 must be equal"),
        (Expands(), ["n", 2], "invalid program", "sizes 2 and 8 do not broadcast"),
        (SelectsFromACount(), ["n", 4], "invalid program", "out of range for a tensor of rank 0"),
        (Comparison(), [4], "invalid program", "a Tensor with 4 elements cannot be converted"),
        (Bits(), ["n", 4], "unsupported", "a bitwise operator takes integers or bools, not f32"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, torch.nn.Module) else "",
)
def test_scripts_that_contradict_their_inputs(module, sizes, kind, message):
    script = torch.jit.script(module)
    with pytest.raises(onnx_native.ExportError, match=message) as caught:
        C.Program(
            C.ScriptSource(script, [C.ScriptInput.tensor("x", torch.float32, sizes)]), opset=20
        )
    assert caught.value.kind == kind
    assert "test_mutants.py" in str(caught.value)


class LongLists(torch.nn.Module):
    def forward(self, x):
        sizes = [[1] * 900000 for _ in range(20)]
        return x.reshape(sizes[3][:2])


LIMITED = """
import sys
from onnx_native import _C
from readers import mutants
mutants.limit_memory(int(sys.argv[1]) << 20)
sys.exit(_C.command_line(sys.argv[2:]))
"""


class LargeBuffer(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("large", torch.zeros(32 << 20))

    def forward(self, x):
        return x + self.large[0]


@pytest.mark.parametrize(("module", "megabytes"), [(LongLists, 8), (LargeBuffer, 192)])
def test_the_command_out_of_memory(
    tmp_path: pathlib.Path, module: type[torch.nn.Module], megabytes: int
):
    """A limit of the process on its addresses is an error in one line, of PyTorch's memory too."""
    path = tmp_path / "m.pt"
    torch.jit.script(module()).save(path)
    arguments = [path, "-o", tmp_path / "m.onnx", "--input", "x:float32[1]"]
    run = subprocess.run(
        [sys.executable, "-c", LIMITED, str(megabytes), *arguments],
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert (run.returncode, run.stderr) == (1, "onnx-native: out of memory\n")
