"""Every test runs with the native exporter loaded, in one thread per worker."""

import onnx_native
import torch

torch.set_num_threads(1)
torch.ops.load_library(onnx_native.library_path())
