// An exported program, as the Python package holds it.
#pragma once

#include <torch/csrc/utils/pybind.h>

namespace onnx_native::plugin {

// Adds the class Program, an onnx_native::Program for Python.
void bind_program(pybind11::module_& module);

}  // namespace onnx_native::plugin
