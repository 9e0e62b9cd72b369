#include "plugin/py_error.h"

#include <torch/csrc/Exceptions.h>

#include <exception>
#include <string>

#include "aten/interrupt.h"
#include "base/error.h"

namespace onnx_native::plugin {
namespace {

constexpr const char* kDocumentation = R"(The error of a failed export.

Attributes:
    kind: "unsupported operator", "unsupported", "invalid program", "invalid argument", "io" or
        "internal".
    cause: What is wrong, and what to do about it.
    operator: The operator that the error is about, such as "aten::relu"; or None.
    operators: All such operators: one export reports every operator without a lowering.
    faults: The faults that one export found, each a dict with the keys operator, cause, node,
        location, code (the text of the source line) and module_path.
    node: The call with the types of its arguments, or None.
    location: The user's source line as "model.py:42", or None.
    module_path: The module that the line belongs to, or None.
    hint: What to do about it, if the cause does not say so, or None.
)";

py::object or_none(const std::string& text) {
  return text.empty() ? py::object(py::none()) : py::object(py::str(text));
}

py::object python_error(py::handle type, const ExportError& error) {
  py::object result = type(error.what());
  const Fault& fault = error.faults().front();
  py::list operators, faults;
  for (const Fault& each : error.faults()) {
    if (!each.op.empty()) operators.append(each.op);
    const std::string& code = each.location.code;
    py::dict entry;
    entry["operator"] = or_none(each.op);
    entry["cause"] = or_none(each.cause);
    entry["node"] = or_none(each.node);
    entry["location"] = or_none(each.location.source);
    entry["code"] = or_none(code.substr(0, code.find('\n')));
    entry["module_path"] = or_none(each.location.module_path);
    faults.append(std::move(entry));
  }
  result.attr("kind") = std::string(name(error.kind()));
  result.attr("cause") = fault.cause;
  result.attr("operator") = or_none(fault.op);
  result.attr("operators") = py::tuple(operators);
  result.attr("faults") = faults;
  result.attr("node") = or_none(fault.node);
  result.attr("location") = or_none(fault.location.source);
  result.attr("module_path") = or_none(fault.location.module_path);
  result.attr("hint") = or_none(error.hint());
  return result;
}

PyObject* error_type = nullptr;  // the module, which is never unloaded, owns a reference

// Returns true for KeyboardInterrupt, SystemExit and others that do not derive from `Exception`.
bool is_interrupt(const std::exception_ptr& thrown) {
  PyObject* type = nullptr;  // borrowed from `thrown`
  try {
    std::rethrow_exception(thrown);
  } catch (const py::error_already_set& error) {
    type = error.type().ptr();
  } catch (const ::python_error& error) {
    type = error.type;
  } catch (...) {
    return false;
  }
  const py::gil_scoped_acquire gil;
  return type && !PyErr_GivenExceptionMatches(type, PyExc_Exception);
}

}  // namespace

void bind_errors(py::module_& module) {
  const std::string name = module.attr("__name__").cast<std::string>() + ".ExportError";
  error_type = PyErr_NewExceptionWithDoc(name.c_str(), kDocumentation, PyExc_RuntimeError, nullptr);
  if (!error_type) throw py::error_already_set();
  module.attr("ExportError") = py::handle(error_type);
  aten::set_interrupts(is_interrupt);
  py::register_exception_translator([](std::exception_ptr thrown) {
    try {
      if (thrown) std::rethrow_exception(thrown);
    } catch (const ExportError& error) {
      PyErr_SetObject(error_type, python_error(error_type, error).ptr());
    }
  });
  module.def(
      "fail",
      [](const std::string& cause, const std::string& source, const std::string& code) {
        throw ExportError(ErrorKind::unsupported,
                          {{.cause = cause, .location = {.source = source, .code = code}}});
      },
      py::arg("cause"), py::arg("source"), py::arg("code"),
      "Raises ExportError(unsupported) at a line of the user's program.");
}

}  // namespace onnx_native::plugin
