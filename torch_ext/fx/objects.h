// The Python objects that the FX reader needs: interned attribute names and classes, looked up once
// per process.
#pragma once

#include <torch/csrc/utils/pybind.h>

#include <string>
#include <string_view>

namespace onnx_native::fx {

namespace py = pybind11;

// Never freed, because the interpreter may be finalized before static objects are destroyed. The
// caller holds the GIL.
struct FxObjects {
  // Attribute names and dictionary keys.
  PyObject* op = intern("op");
  PyObject* name = intern("name");
  PyObject* target = intern("target");
  PyObject* args = intern("args");
  PyObject* kwargs = intern("kwargs");
  PyObject* meta = intern("meta");
  PyObject* users = intern("users");
  PyObject* nodes = intern("nodes");
  PyObject* graph = intern("graph");
  PyObject* node = intern("node");
  PyObject* expr = intern("expr");
  PyObject* raw_expr = intern("_expr");
  PyObject* val = intern("val");
  PyObject* stack_trace = intern("stack_trace");
  PyObject* nn_module_stack = intern("nn_module_stack");
  PyObject* kind = intern("kind");
  PyObject* arg = intern("arg");
  PyObject* value = intern("value");
  // Values of Node.op.
  PyObject* placeholder = intern("placeholder");
  PyObject* call_function = intern("call_function");
  PyObject* get_attr = intern("get_attr");
  PyObject* output = intern("output");

  PyTypeObject* node_type = type("torch.fx", "Node");
  PyTypeObject* op_overload = type("torch._ops", "OpOverload");
  PyTypeObject* higher_order = type("torch._ops", "HigherOrderOperator");
  PyTypeObject* graph_module = type("torch.fx", "GraphModule");
  PyTypeObject* sym_int = type("torch", "SymInt");
  PyTypeObject* sym_float = type("torch", "SymFloat");
  PyTypeObject* sym_bool = type("torch", "SymBool");
  PyTypeObject* constant_argument = type("torch.export.graph_signature", "ConstantArgument");
  PyObject* getitem = find("operator", "getitem");
  // The folder of PyTorch's Python files, with a trailing slash.
  std::string torch_folder = folder_of("torch");

  static const FxObjects& get();

 private:
  static PyObject* intern(const char* text) { return PyUnicode_InternFromString(text); }
  static PyObject* find(const char* module, const char* name) {
    return py::object(py::module_::import(module).attr(name)).release().ptr();
  }
  static std::string folder_of(const char* module) {
    const auto file = py::module_::import(module).attr("__file__").cast<std::string>();
    return file.substr(0, file.rfind('/') + 1);
  }
  static PyTypeObject* type(const char* module, const char* name) {
    return reinterpret_cast<PyTypeObject*>(find(module, name));
  }
};

inline bool is_a(PyObject* object, PyTypeObject* type) {
  return Py_TYPE(object) == type || PyType_IsSubtype(Py_TYPE(object), type);
}
// Returns an attribute; throws the Python error when there is none.
inline py::object attribute(PyObject* object, PyObject* name) {
  PyObject* result = PyObject_GetAttr(object, name);
  if (!result) throw py::error_already_set();
  return py::reinterpret_steal<py::object>(result);
}
// Returns the UTF-8 text of a str, valid while the object lives; throws the Python error otherwise.
inline std::string_view text(PyObject* object) {
  Py_ssize_t size = 0;
  const char* data = PyUnicode_AsUTF8AndSize(object, &size);
  if (!data) throw py::error_already_set();
  return {data, static_cast<size_t>(size)};
}
// Returns an entry of a dict (borrowed), or nullptr when the key is absent.
inline PyObject* entry(PyObject* dict, PyObject* key) {
  PyObject* result = PyDict_GetItemWithError(dict, key);
  if (!result && PyErr_Occurred()) throw py::error_already_set();
  return result;
}

}  // namespace onnx_native::fx
