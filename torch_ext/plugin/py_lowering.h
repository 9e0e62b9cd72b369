// Lowerings written in Python.
#pragma once

#include <torch/csrc/utils/pybind.h>

namespace onnx_native::plugin {

namespace py = pybind11;

// Builder and Value for Python, and register_lowering/remove_lowering.
void bind_lowerings(py::module_& module);

}  // namespace onnx_native::plugin
