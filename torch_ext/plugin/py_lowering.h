// Lowerings written in Python.
#pragma once

#include <torch/csrc/utils/pybind.h>

#include "ops/call.h"

namespace onnx_native::plugin {

namespace py = pybind11;

// Calls `function` with a Builder and the list of what the call's values became, in schema order.
// Results that it does not give may not be used.
ops::Results run_on_values(const py::function& function, const ops::Call& call);

// Builder and Value for Python, and register_lowering/remove_lowering.
void bind_lowerings(py::module_& module);

}  // namespace onnx_native::plugin
