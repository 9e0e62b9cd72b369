// ExportError as a Python exception.
#pragma once

#include <torch/csrc/utils/pybind.h>

namespace onnx_native::plugin {

// Adds the exception type to the module. Its instances have the attributes that
// onnx_native.ExportError documents.
void bind_errors(py::module_& module);

}  // namespace onnx_native::plugin
