// The one exception type, and where in the user's program something is.
#pragma once

#include <cstdint>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace onnx_native {

// Where a node comes from. Strings are empty where the reader does not know.
struct Location {
  std::string source;       // user's source line: "model.py:42"
  std::string code;         // the text of that line
  std::string module_path;  // "encoder.layer.0 (BertLayer)"
  std::string node;         // name in the source graph
  // Scopes from the outside in: names, class names, and which call of the module it is (from 0; may
  // be shorter, then the first).
  std::vector<std::string> module_names;
  std::vector<std::string> class_names;
  std::vector<int64_t> calls;
};

// In class_names, the domain of sub-graphs that are functions of their own; PyTorch's exporter
// calls it so.
inline constexpr std::string_view kSubgraphDomain = "pkg.torch.__subgraph__";

// What went wrong, as users can tell apart.
enum class ErrorKind {
  unsupported_operator,  // no entry in the op table
  unsupported,           // an operator's flag, mode or dtype that cannot be expressed
  invalid_program,       // the program breaks a contract (a reader's or the user's fault)
  invalid_argument,      // the caller's options
  io,                    // files
  internal,              // a broken invariant of ours
};
std::string_view name(ErrorKind kind);

// One thing that is wrong, and where. Empty fields are unknown.
struct Fault {
  std::string cause;  // a sentence: what is wrong, then what to do
  std::string op;     // "aten::relu"
  std::string node;   // the call with the types of its arguments, as the graph prints it
  Location location;
};

// Errors carry fields. Their text is rendered from these, here and nowhere else:
//   [unsupported]: aten::relu: this is the cause
//     %3: f32[2] = aten::relu(%x: f32[2])
//     at model.py:42: return self.relu(x)
//     in encoder.layer.0 (Layer)
//     hint: this is the way out
class ExportError : public std::runtime_error {
 public:
  ExportError(ErrorKind kind, std::string cause);
  // At least one fault; several where one export finds them together (operators without a
  // lowering).
  ExportError(ErrorKind kind, std::vector<Fault> faults, std::string hint = {});

  ErrorKind kind() const { return kind_; }
  const std::vector<Fault>& faults() const { return faults_; }
  // Of the first fault.
  const std::string& cause() const { return faults_.front().cause; }
  const std::string& op() const { return faults_.front().op; }
  const Location& location() const { return faults_.front().location; }
  const std::string& hint() const { return hint_; }
  const char* what() const noexcept override { return text_.c_str(); }

  // Adds the call and the place where the error was met. What an inner call has said stays.
  void add_node(const std::string& op, const std::string& node);
  void add_location(const Location& location);
  // Puts words in front of the cause.
  void add_prefix(const std::string& words);

 private:
  void render();

  ErrorKind kind_;
  std::vector<Fault> faults_;
  std::string hint_;
  std::string text_;
};

// The source line and the module, each on a line of its own that starts with a line break; empty
// where nothing is known (nullptr too).
std::string where(const Location* location);

// All parts of a message, streamed into one string.
template <class... Parts>
std::string concat(const Parts&... parts) {
  std::ostringstream out;
  (out << ... << parts);
  return out.str();
}

template <class... Parts>
[[noreturn]] void fail(ErrorKind kind, const Parts&... parts) {
  throw ExportError(kind, concat(parts...));
}

// An invariant of ours.
template <class... Parts>
void require(bool condition, const Parts&... parts) {
  if (!condition) fail(ErrorKind::internal, parts...);
}

}  // namespace onnx_native
