"""Native capture of a program in a file that was executed, and is no imported module."""

from __future__ import annotations

import pathlib

import torch
from models.loading import loaded
from models.recording import assert_recorded

SOURCE = """
import torch

def groups_of(index):
    return int(index.max()) + 1

class Pool(torch.nn.Module):
    def forward(self, x, index):
        count = max(groups_of(index), len(x) // 100)
        return x.new_full((count,), float("-inf")).scatter_reduce(0, index, x, "amax"), count
"""


def test_an_executed_file(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "pool_that_is_not_imported.py"
    path.write_text(SOURCE)
    module = loaded(path)
    examples = [
        (
            torch.randn(n),
            torch.cat((torch.randint(0, groups, (n - 1,)), torch.tensor([groups - 1]))),
        )
        for n, groups in ((6, 2), (1, 1), (3, 3), (12, 5), (7, 1))
    ]
    assert_recorded(module.Pool(), ({0: "n"}, {0: "n"}), *examples)
    assert "int" not in vars(module)
