// Calls lowerings written in Python.
#pragma once

#include <torch/csrc/utils/pybind.h>

#include "ops/engine/call.h"

namespace onnx_native::plugin {

namespace py = pybind11;

// Calls `function(builder, args, kwargs)`, with the arguments that torch's dispatcher would pass to
// Python. Pads the results with empty ones up to the call's number of outputs; no later call may
// use those. Acquires the GIL.
ops::Results run_on_arguments(const py::function& function, const ops::Call& call);

// Adds the Python classes Builder and Value, register_lowering and remove_lowering to the module.
void bind_lowerings(py::module_& module);

}  // namespace onnx_native::plugin
