"""The same program gives the same bytes: in any folder, with any hash seed."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys

import onnx_native

PROGRAM = """
import onnx_native
import torch

onnx_native.enable()


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = torch.nn.Conv2d(3, 4, 3)
        self.norm = torch.nn.BatchNorm2d(4)
        self.encoder = torch.nn.TransformerEncoderLayer(4, 2, 8, batch_first=True)

    def forward(self, x, mask):
        y = self.norm(self.conv(x)).flatten(2).transpose(1, 2)
        low, high = self.encoder(y).chunk(2, -1)
        return {"low": low.masked_fill(mask, 0.0), "high": high.cumsum(1)}


torch.manual_seed(0)
args = (torch.randn(2, 3, 8, 8), torch.zeros(1, dtype=torch.bool))
shapes = ({0: "batch", 2: "h"}, {})
net = Net().eval()
for capture in ("native", "torch.export"):
    with onnx_native.options(capture=capture, functions=[torch.nn.LayerNorm]):
        torch.onnx.export(net, args, f"{capture}.onnx", dynamo=True, dynamic_shapes=shapes)
"""


def test_same_bytes(tmp_path: pathlib.Path) -> None:
    package = pathlib.Path(onnx_native.__file__).parents[1]
    found = set()
    for seed in ("0", "1", "2", "31", "4095"):
        folder = tmp_path / ("folder" * int(seed[0]) + seed)
        folder.mkdir()
        (folder / "program.py").write_text(PROGRAM)
        environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(package)}
        subprocess.run([sys.executable, "program.py"], cwd=folder, env=environment, check=True)
        found |= {(path.name, path.read_bytes()) for path in folder.glob("*.onnx")}
    assert len(found) == 2
    assert not any(str(tmp_path).encode() in content for _, content in found)
