#include "plugin/fx_location.h"

namespace onnx_native::plugin {
namespace {

constexpr std::string_view kFile = "File \"";

const std::string& torch_folder() {
  static const std::string folder = [] {
    const std::string file = py::module_::import("torch").attr("__file__").cast<std::string>();
    return file.substr(0, file.rfind('/') + 1);
  }();
  return folder;
}

bool is_torch_file(std::string_view path) {
  return path.starts_with(torch_folder()) || path.starts_with("torch/") || path.starts_with("<");
}

std::string_view trimmed(std::string_view line) {
  const size_t first = line.find_first_not_of(" \t\r");
  if (first == line.npos) return {};
  return line.substr(first, line.find_last_not_of(" \t\r") - first + 1);
}

// The frame that starts at `start` (at its `File "`); false when it does not read as one.
bool read_frame(std::string_view trace, size_t start, bool any_file, Location& location) {
  std::string_view rest = trace.substr(start + kFile.size());
  const size_t quote = rest.find('"');
  if (quote == rest.npos) return false;
  const std::string_view path = rest.substr(0, quote);
  if (!any_file && is_torch_file(path)) return false;
  rest.remove_prefix(quote);
  constexpr std::string_view kLine = "\", line ";
  if (!rest.starts_with(kLine)) return false;
  rest.remove_prefix(kLine.size());
  const std::string_view line = rest.substr(0, rest.find_first_not_of("0123456789"));
  location.source = concat(path.substr(path.rfind('/') + 1), ":", line);
  const size_t end = rest.find('\n');
  if (end != rest.npos) {
    rest.remove_prefix(end + 1);
    location.code = trimmed(rest.substr(0, rest.find('\n')));
  }
  return true;
}

void read_modules(PyObject* stack, Location& location) {
  PyObject* key = nullptr;
  PyObject* value = nullptr;
  Py_ssize_t position = 0;
  const auto size = static_cast<size_t>(PyDict_Size(stack));
  location.module_names.reserve(size);
  location.class_names.reserve(size);
  while (PyDict_Next(stack, &position, &key, &value)) {
    if (!PyTuple_Check(value) || PyTuple_GET_SIZE(value) < 2) continue;
    PyObject* path = PyTuple_GET_ITEM(value, 0);
    PyObject* type = PyTuple_GET_ITEM(value, 1);
    if (!PyUnicode_Check(path) || !PyUnicode_Check(key) || text(key).starts_with("_empty_nn")) {
      continue;
    }
    location.module_names.emplace_back(text(path));
    if (PyUnicode_Check(type)) {
      location.class_names.emplace_back(text(type));
    } else {
      location.class_names.push_back(
          concat(py::str(py::handle(type).attr("__module__")).cast<std::string>(), ".",
                 py::str(py::handle(type).attr("__qualname__")).cast<std::string>()));
    }
  }
  if (location.module_names.empty()) return;
  const std::string& type = location.class_names.back();
  location.module_path = location.module_names.back();
  location.module_path += location.module_path.empty() ? "(" : " (";
  location.module_path.append(type, type.rfind('.') + 1);
  location.module_path += ')';
}

}  // namespace

void read_stack_trace(std::string_view trace, Location& location) {
  for (const bool any_file : {false, true}) {
    for (size_t at = trace.rfind(kFile); at != trace.npos;
         at = at == 0 ? trace.npos : trace.rfind(kFile, at - 1)) {
      if (read_frame(trace, at, any_file, location)) return;
    }
  }
}

Location read_location(PyObject* meta, std::string_view node_name) {
  const FxObjects& fx = FxObjects::get();
  Location location;
  location.node = node_name;
  if (PyObject* trace = entry(meta, fx.stack_trace); trace && PyUnicode_Check(trace)) {
    read_stack_trace(text(trace), location);
  }
  if (PyObject* stack = entry(meta, fx.nn_module_stack); stack && PyDict_Check(stack)) {
    read_modules(stack, location);
  }
  return location;
}

}  // namespace onnx_native::plugin
