#include "plugin/py_host.h"

#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/utils/python_symnode.h>

#include <cmath>

#include "aten/scopes.h"
#include "aten/stack_trace.h"

namespace onnx_native::plugin {
namespace {

std::string text_of(py::handle object) { return object.cast<std::string>(); }

py::object code_of(PyFrameObject* frame) {
  return py::reinterpret_steal<py::object>(reinterpret_cast<PyObject*>(PyFrame_GetCode(frame)));
}

std::string folder_of(const char* package) {
  const std::string file = text_of(py::module_::import(package).attr("__file__"));
  return file.substr(0, file.rfind('/') + 1);
}

// PyTorch's argument parser replaces a symbolic number with this number or NaN.
bool may_be_placeholder(const at::Tensor& number) {
  constexpr int64_t kPlaceholder = 7777777;
  switch (number.scalar_type()) {
    case c10::kLong:
      return *number.const_data_ptr<int64_t>() == kPlaceholder;
    case c10::kDouble: {
      const double value = *number.const_data_ptr<double>();
      return std::isnan(value) || value == static_cast<double>(kPlaceholder);
    }
    default:
      return number.scalar_type() == c10::kBool;
  }
}

}  // namespace

SourceLines::SourceLines()
    : torch_folder_(folder_of("torch")), own_folder_(folder_of("onnx_native")) {}

void SourceLines::start() { outer_ = code_of(PyEval_GetFrame()); }

void SourceLines::locate(Location& location) {
  const Line* innermost = nullptr;
  std::vector<const Line*> frames;  // the user's frames, innermost first
  PyFrameObject* frame = PyEval_GetFrame();
  Py_XINCREF(frame);
  while (frame && frames.size() < aten::kMostFrames && code_of(frame).ptr() != outer_.ptr()) {
    const Line& line = line_of(frame);
    // Skip this package's frames, which can lie between the program and PyTorch.
    if (!innermost && line.kind != Kind::own) innermost = &line;
    if (line.kind == Kind::user) frames.push_back(&line);
    PyFrameObject* back = PyFrame_GetBack(frame);
    Py_DECREF(frame);
    frame = back;
  }
  Py_XDECREF(frame);
  if (!frames.empty()) innermost = frames.front();
  if (!innermost) return;
  location.source = innermost->source;
  std::string stack;
  for (auto line = frames.rbegin(); line != frames.rend(); ++line)
    aten::append_frame(stack, (*line)->frame);
  location.code = concat(innermost->code, "\n", stack.empty() ? innermost->frame : stack);
}

bool SourceLines::is_in_program() {
  PyFrameObject* frame = PyEval_GetFrame();
  Py_XINCREF(frame);
  while (frame && line_of(frame).kind == Kind::torch &&
         text_of(code_of(frame).attr("co_name")) == "__bool__") {
    PyFrameObject* back = PyFrame_GetBack(frame);
    Py_DECREF(frame);
    frame = back;
  }
  const bool is_users = frame && line_of(frame).kind == Kind::user;
  Py_XDECREF(frame);
  return is_users;
}

std::vector<std::pair<std::string, int>> SourceLines::of_user() const {
  std::vector<std::pair<std::string, int>> result;
  for (const auto& [place, line] : lines_) {
    if (line.kind != Kind::user) continue;
    const auto code = py::reinterpret_borrow<py::object>(place.first);
    result.emplace_back(text_of(code.attr("co_filename")), place.second);
  }
  return result;
}

const SourceLines::Line& SourceLines::line_of(PyFrameObject* frame) {
  const py::object code = code_of(frame);
  const int number = PyFrame_GetLineNumber(frame);
  const auto [at, inserted] = lines_.try_emplace({code.ptr(), number});
  if (inserted) {
    kept_.push_back(code);
    at->second = read(text_of(code.attr("co_filename")), number, text_of(code.attr("co_name")));
  }
  return at->second;
}

SourceLines::Line SourceLines::read(const std::string& file, int number,
                                    const std::string& function) const {
  Line line;
  if (file.starts_with(own_folder_)) {
    line.kind = Kind::own;
  } else if (file.starts_with(torch_folder_) || file.starts_with("<")) {
    line.kind = Kind::torch;
  }
  line.source = concat(file.substr(file.rfind('/') + 1), ":", number);
  const py::object code = py::module_::import("linecache").attr("getline")(file, number);
  line.code = text_of(code.attr("strip")());
  line.frame =
      aten::frame_text(aten::local_path(file), std::to_string(number), function, line.code);
  return line;
}

Location PythonHost::location() {
  if (placed_) return *placed_;
  const py::gil_scoped_acquire gil;
  Location result = scopes_.empty() ? Location() : scopes_.back();
  lines_.locate(result);
  return result;
}

c10::IValue PythonHost::symbol_behind(const at::Tensor& number) {
  if (!may_be_placeholder(number)) return {};
  const py::gil_scoped_acquire gil;
  const auto object = py::reinterpret_steal<py::object>(THPVariable_Wrap(number));
  const py::object symbol = py::getattr(object, "_wrapped_number", py::none());
  if (torch::is_symint(symbol)) return symbol.cast<c10::SymInt>();
  if (torch::is_symfloat(symbol)) return symbol.cast<c10::SymFloat>();
  if (torch::is_symbool(symbol)) return symbol.cast<c10::SymBool>();
  return {};
}

// PyTorch adds another wrapper to nodes of floats and bools that come from Python.
c10::SymNode PythonHost::unwrapped(const c10::SymNode& node) {
  auto* wrapper = dynamic_cast<torch::impl::PythonSymNodeImpl*>(node.get());
  if (!wrapper) return node;
  const py::gil_scoped_acquire gil;
  const py::handle inner = wrapper->getPyObj();
  return py::isinstance<c10::SymNodeImpl>(inner) ? inner.cast<c10::SymNode>() : node;
}

bool PythonHost::is_in_program() {
  const py::gil_scoped_acquire gil;
  return lines_.is_in_program();
}

void PythonHost::enter(const std::string& path, const std::string& class_name) {
  Location inner = scopes_.empty() ? Location() : scopes_.back();
  const int64_t call = calls_[path]++;
  aten::add_scope(inner, call == 0 ? path : concat(path, "@", call), path, class_name);
  scopes_.push_back(std::move(inner));
}

}  // namespace onnx_native::plugin
