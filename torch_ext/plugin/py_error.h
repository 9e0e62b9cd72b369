// Exposes ExportError as a Python exception.
#pragma once

#include <torch/csrc/utils/pybind.h>

namespace onnx_native::plugin {

// Adds ExportError to the module and translates C++ ExportErrors into it. The Python class
// documents the attributes of its instances.
void bind_errors(py::module_& module);

}  // namespace onnx_native::plugin
