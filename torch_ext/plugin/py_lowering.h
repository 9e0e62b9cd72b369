// Lowerings written in Python.
#pragma once

#include <torch/csrc/utils/pybind.h>

#include "ops/engine/call.h"

namespace onnx_native::plugin {

namespace py = pybind11;

// Calls `function` with a Builder, the list of the call's positional arguments and the dict of its
// keywords, as torch's dispatcher would hand them to Python. Results that it does not give may not
// be used.
ops::Results run_on_arguments(const py::function& function, const ops::Call& call);

// Builder and Value for Python, and register_lowering/remove_lowering.
void bind_lowerings(py::module_& module);

}  // namespace onnx_native::plugin
