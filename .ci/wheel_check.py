"""Checks the installed package: wheel_check.py FOLDER_OF_THE_SOURCES.

Its libraries name no folder of the build machine. It exports a small model and runs it.
"""

import importlib.metadata
import pathlib
import re
import subprocess
import sys
import sysconfig

import numpy as np
import onnx
import onnx_native
import onnxruntime
import torch

package = pathlib.Path(onnx_native.__file__).parent
assert "site-packages" in package.parts, f"not the installed package: {package}"
texts = {
    each.name for each in importlib.metadata.files("onnx-native") or [] if "licenses" in each.parts
}
assert texts == {"LICENSE", "THIRD_PARTY_LICENSES"}, texts

# The same sources make the same bytes in every folder.
for path in [*package.rglob("*.so"), *package.rglob("onnx-native")]:
    contents = path.read_bytes()
    named = re.findall(rb"(?<![\w/.:])[/.][\w/.+-]+\.(?:cc|cpp|h|inc)\b", contents)
    assert not named, f"{path} names {named[:3]}"
    assert sys.argv[1].encode() not in contents, f"{path} names {sys.argv[1]}"

torch.ops.load_library(onnx_native.library_path())

model = torch.nn.Sequential(torch.nn.Linear(4, 16), torch.nn.ReLU(), torch.nn.Linear(16, 3)).eval()
x = torch.randn(3, 4)
torch.onnx.export(
    model, (x,), "m.onnx", dynamo=True, dynamic_shapes=({0: torch.export.Dim("batch")},)
)
loaded = onnx.load("m.onnx")
onnx.checker.check_model(loaded, full_check=True)
assert loaded.producer_name == "onnx_native", loaded.producer_name
session = onnxruntime.InferenceSession("m.onnx")
for rows in (3, 5):
    x = torch.randn(rows, 4)
    (got,) = session.run(None, {session.get_inputs()[0].name: x.numpy()})
    np.testing.assert_allclose(got, model(x).detach().numpy(), atol=1e-4, rtol=1e-4)
print(f"wheel: onnx_native {onnx_native.__version__} from {package} exports and runs")

# The command finds the executable for this PyTorch.
program = torch.export.export(model, (torch.randn(3, 4),))
torch.export.save(program, "m.pt2")
torch.jit.script(model).save("m.pt")  # for the application in C++
command = pathlib.Path(sysconfig.get_path("scripts")) / "onnx-native"
subprocess.run([command, "m.pt2", "-o", "cli.onnx", "--check"], check=True, env={})
onnx.checker.check_model("cli.onnx", full_check=True)
print(f"wheel: {command} exports and checks")
