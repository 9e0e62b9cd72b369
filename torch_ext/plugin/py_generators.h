// The random number generators of a program: see onnx_native.modules._generators.
#pragma once

#include <torch/csrc/utils/pybind.h>

namespace onnx_native::plugin {

void bind_generators(py::module_& module);

}  // namespace onnx_native::plugin
