"""Exports a model where PyTorch and onnx_native are installed, and prints what loading takes."""

import sys
import time

import torch

before = set(sys.modules)
start = time.perf_counter()
import onnx_native  # noqa: E402

torch.ops.load_library(onnx_native.library_path())
seconds = time.perf_counter() - start
packages = {name.partition(".")[0] for name in set(sys.modules) - before}
others = sorted(packages - sys.stdlib_module_names - {"onnx_native"})
print(f"wheel: PyTorch {torch.__version__}, Python {sys.version.split()[0]}; loaded in ", end="")
print(f"{seconds * 1000:.0f} ms with {', '.join(others) or 'no other package'}")
model = torch.nn.Linear(4, 3).eval()
torch.onnx.export(model, (torch.randn(2, 4),), "first.onnx", dynamo=True, verbose=False)
