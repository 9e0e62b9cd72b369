// Answers what a native capture asks Python: source lines, modules, symbolic numbers.
#pragma once

#include <torch/csrc/utils/pybind.h>

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "capture/recording.h"

namespace onnx_native::plugin {

// The user's source lines, by code object and line number. Holds the code objects, so that no
// address is reused.
class SourceLines {
 public:
  SourceLines();

  // Marks the current frame as the one that runs the program. This frame and its callers are not
  // part of the program.
  void start();
  // Sets the source and code of `location`, like aten::read_stack_trace().
  void locate(Location& location);
  // Returns true if the innermost frame is the user's. Skips PyTorch's frames of __bool__.
  bool is_in_program();
  // Returns the files and the line numbers of the user's lines that were located.
  std::vector<std::pair<std::string, int>> of_user() const;

 private:
  enum class Kind { user, torch, own };
  struct Line {
    Kind kind = Kind::user;
    std::string source;
    std::string code;
    std::string frame;  // the text of the frame in a stack trace
  };

  const Line& line_of(PyFrameObject* frame);
  Line read(const std::string& file, int number, const std::string& function) const;

  std::string torch_folder_;
  std::string own_folder_;
  py::object outer_;  // the code that runs the program
  std::map<std::pair<PyObject*, int>, Line> lines_;
  std::vector<py::object> kept_;
};

class PythonHost final : public capture::Host {
 public:
  Location location() override;
  c10::IValue symbol_behind(const at::Tensor& number) override;
  c10::SymNode unwrapped(const c10::SymNode& node) override;
  bool is_in_program() override;

  void start() { lines_.start(); }
  const SourceLines& lines() const { return lines_; }
  void enter(const std::string& path, const std::string& class_name);
  void leave() {
    if (!scopes_.empty()) scopes_.pop_back();
  }
  // Makes this the location of the next calls, in place of the current frame's.
  void place(Location location) { placed_ = std::move(location); }

 private:
  SourceLines lines_;
  std::vector<Location> scopes_;  // one per running module; each includes the outer modules
  std::map<std::string, int64_t> calls_;
  std::optional<Location> placed_;
};

}  // namespace onnx_native::plugin
