// The values of a recorded program, as Python holds them.
#pragma once

#include <ATen/core/ivalue.h>
#include <c10/core/SymBool.h>
#include <torch/csrc/utils/pybind.h>

#include <vector>

namespace onnx_native::plugin {

// Returns a tensor, a number or None. Any other object becomes a string, which no recording takes.
c10::IValue value_of(py::handle object);
std::vector<c10::IValue> values_of(const py::list& objects);
// Returns a torch.SymBool. PyTorch's own conversion accepts only those that Python created.
py::object symbolic_bool(const c10::SymBool& truth);

}  // namespace onnx_native::plugin
