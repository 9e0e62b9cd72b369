"""Tests run with the native exporter, without its safety nets, in one thread per worker."""

import os

os.environ["ONNX_NATIVE_FALLBACKS"] = "0"

import onnx_native
import torch

torch.set_num_threads(1)
torch.ops.load_library(onnx_native.library_path())
