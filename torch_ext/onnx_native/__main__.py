"""python -m onnx_native: the command onnx-native, carried out in this process."""

import sys

from onnx_native import _library

sys.exit(_library.extension().command_line(sys.argv[1:]))
