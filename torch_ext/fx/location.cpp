#include "fx/location.h"

#include "aten/scopes.h"
#include "aten/stack_trace.h"

namespace onnx_native::fx {
namespace {

void read_modules(PyObject* stack, Location& location) {
  PyObject* key = nullptr;
  PyObject* value = nullptr;
  Py_ssize_t position = 0;
  while (PyDict_Next(stack, &position, &key, &value)) {
    if (!PyTuple_Check(value) || PyTuple_GET_SIZE(value) < 2) continue;
    PyObject* path = PyTuple_GET_ITEM(value, 0);
    PyObject* type = PyTuple_GET_ITEM(value, 1);
    if (!PyUnicode_Check(path) || !PyUnicode_Check(key) || text(key).starts_with("_empty_nn")) {
      continue;
    }
    if (PyUnicode_Check(type)) {
      aten::add_scope(location, text(key), text(path), text(type));
    } else {
      aten::add_scope(location, text(key), text(path),
                      concat(py::str(py::handle(type).attr("__module__")).cast<std::string>(), ".",
                             py::str(py::handle(type).attr("__qualname__")).cast<std::string>()));
    }
  }
}

}  // namespace

Location read_location(PyObject* meta, std::string_view node_name) {
  const FxObjects& fx = FxObjects::get();
  Location location;
  location.node = node_name;
  if (PyObject* trace = entry(meta, fx.stack_trace); trace && PyUnicode_Check(trace)) {
    aten::read_stack_trace(text(trace), location, fx.torch_folder);
  }
  if (PyObject* stack = entry(meta, fx.nn_module_stack); stack && PyDict_Check(stack)) {
    read_modules(stack, location);
  }
  return location;
}

}  // namespace onnx_native::fx
