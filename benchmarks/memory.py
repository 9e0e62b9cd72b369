"""Measures resident memory and seconds: a Llama of 7 billion parameters without its weights, and a
model of over 2 GB with them. Each runs in a process of its own.

    python benchmarks/memory.py
"""

import pathlib
import resource
import subprocess
import sys
import tempfile
import time
from typing import Any

import torch

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "test/python"))

import onnx_native
from models.torchvision_kernels import load_torchvision_kernels

GB = 1 << 30


def resident() -> float:
    """The largest resident memory of this process so far, in GB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / GB


def export(device: str, path: pathlib.Path, **config: Any) -> None:
    from transformers import LlamaConfig, LlamaForCausalLM

    with torch.device(device):
        model = LlamaForCausalLM(LlamaConfig(use_cache=False, **config)).eval()
        ids = torch.zeros(2, 8, dtype=torch.int64)
    weights = sum(tensor.nbytes for tensor in model.parameters()) / GB
    before, start = resident(), time.perf_counter()
    torch.onnx.export(
        model,
        (ids,),
        path,
        dynamo=True,
        dynamic_shapes=({0: "batch", 1: "sequence"},),
        export_params=device != "meta",
        verbose=False,
    )
    seconds = time.perf_counter() - start
    sizes = {file.name: file.stat().st_size / 1e6 for file in sorted(path.parent.iterdir())}
    print(
        f"{device}: weights {weights:.2f} GB, resident before {before:.2f} GB, at most "
        f"{resident():.2f} GB, {seconds:.1f} s,",
        ", ".join(f"{name} {size:.1f} MB" for name, size in sizes.items()),
    )


def main() -> None:
    if len(sys.argv) == 1:
        for device in ("meta", "cpu"):
            subprocess.run([sys.executable, __file__, device], check=True)
        return
    torch.ops.load_library(onnx_native.library_path())
    load_torchvision_kernels()
    config = {} if sys.argv[1] == "meta" else {"hidden_size": 2048, "num_hidden_layers": 8}
    with tempfile.TemporaryDirectory() as folder:
        export(sys.argv[1], pathlib.Path(folder) / "model.onnx", **config)


if __name__ == "__main__":
    main()
