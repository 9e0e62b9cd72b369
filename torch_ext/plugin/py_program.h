// The Python class of exported programs.
#pragma once

#include <torch/csrc/utils/pybind.h>

namespace onnx_native::plugin {

// Adds the class Program, which wraps an onnx_native::Program, to the module.
void bind_program(pybind11::module_& module);

}  // namespace onnx_native::plugin
