#include "plugin/py_values.h"

#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/utils/python_symnode.h>

#include <string>

namespace onnx_native::plugin {

c10::IValue value_of(py::handle object) {
  if (object.is_none()) return {};
  if (THPVariable_Check(object.ptr())) return THPVariable_Unpack(object.ptr());
  if (torch::is_symint(object)) return object.cast<c10::SymInt>();
  if (torch::is_symfloat(object)) return object.cast<c10::SymFloat>();
  if (torch::is_symbool(object)) return object.cast<c10::SymBool>();
  if (py::isinstance<py::bool_>(object)) return object.cast<bool>();
  if (py::isinstance<py::int_>(object)) return object.cast<int64_t>();
  if (py::isinstance<py::float_>(object)) return object.cast<double>();
  return c10::IValue(std::string());
}

std::vector<c10::IValue> values_of(const py::list& objects) {
  std::vector<c10::IValue> values;
  for (const py::handle object : objects) values.push_back(value_of(object));
  return values;
}

py::object symbolic_bool(const c10::SymBool& truth) {
  return py::module_::import("torch").attr("SymBool")(py::cast(truth.toSymNodeImpl()));
}

}  // namespace onnx_native::plugin
