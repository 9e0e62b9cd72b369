// Runs when the library is loaded. If a Python interpreter runs in the process, schedules a pending
// call that installs the hook in torch.onnx.
#include <dlfcn.h>
#include <torch/csrc/python_headers.h>

#include <filesystem>
#include <string>

#include "api/torch_version.h"

namespace onnx_native::plugin {
namespace {

// Returns the folder of the Python package, which holds the folder of this library; empty if it is
// unknown.
std::string package_folder() {
  Dl_info info;
  if (!dladdr(reinterpret_cast<const void*>(&package_folder), &info) || !info.dli_fname) return {};
  return std::filesystem::path(info.dli_fname).parent_path().parent_path();
}

constexpr const char* kInstall = R"(
import importlib.util, sys
if 'onnx_native' not in sys.modules:
    spec = importlib.util.spec_from_file_location(
        'onnx_native', folder + '/__init__.py', submodule_search_locations=[folder])
    package = importlib.util.module_from_spec(spec)
    sys.modules['onnx_native'] = package
    spec.loader.exec_module(package)
from onnx_native.routes import _hook
_hook.on_library_loaded()
)";

int install(void*) {
  const std::string problem = torch_version_problem();
  if (!problem.empty()) {
    PyErr_SetString(PyExc_ImportError, problem.c_str());
    return -1;
  }
  PyObject* globals = PyDict_New();
  const std::string folder = package_folder();
  PyObject* folder_object = PyUnicode_DecodeFSDefault(folder.c_str());
  PyObject* result = nullptr;
  if (globals && folder_object && PyDict_SetItemString(globals, "folder", folder_object) == 0 &&
      PyDict_SetItemString(globals, "__builtins__", PyEval_GetBuiltins()) == 0) {
    result = PyRun_String(kInstall, Py_file_input, globals, globals);
  }
  Py_XDECREF(folder_object);
  Py_XDECREF(globals);
  if (!result) return -1;
  Py_DECREF(result);
  return 0;
}

// Must not throw: an exception that leaves a constructor run by dlopen terminates the process.
__attribute__((constructor)) void on_load() {
  if (Py_IsInitialized()) Py_AddPendingCall(&install, nullptr);
}

}  // namespace
}  // namespace onnx_native::plugin
