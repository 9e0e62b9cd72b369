// The one exception type, and the location of an error in the user's program.
#pragma once

#include <cstdint>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace onnx_native {

// The source of a node. A string is empty if the reader does not know it.
struct Location {
  std::string source;       // user's source line: "model.py:42"
  std::string code;         // the text of that line
  std::string module_path;  // "encoder.layer.0 (BertLayer)"
  std::string node;         // name in the source graph
  // Scopes from the outermost in: module names, class names, and the index of each module's call
  // (from 0; a missing index means 0).
  std::vector<std::string> module_names;
  std::vector<std::string> class_names;
  std::vector<int64_t> calls;
};

// In class_names, the domain of subgraphs that become functions; PyTorch's exporter uses this name.
inline constexpr std::string_view kSubgraphDomain = "pkg.torch.__subgraph__";

// The kind of error, as far as users need to tell errors apart.
enum class ErrorKind {
  unsupported_operator,  // no entry in the op table
  unsupported,           // a flag, mode or dtype that ONNX or a lowering cannot express
  invalid_program,       // the program breaks a contract (the reader's or the user's fault)
  invalid_argument,      // bad options from the caller
  io,                    // files
  internal,              // a broken invariant of the exporter
};
std::string_view name(ErrorKind kind);

// One defect and its location. Empty fields are unknown.
struct Fault {
  std::string cause;  // a sentence that says what is wrong, then what to do
  std::string op;     // "aten::relu"
  std::string node;   // the call as the graph prints it, with argument types
  Location location;
};

// An error with structured fields. The text is rendered from the fields, here and nowhere else:
//   [unsupported]: aten::relu: this is the cause
//     %3: f32[2] = aten::relu(%x: f32[2])
//     at model.py:42: return self.relu(x)
//     in encoder.layer.0 (Layer)
//     hint: this is the way out
class ExportError : public std::runtime_error {
 public:
  ExportError(ErrorKind kind, std::string cause);
  // Takes at least one fault; several if one export finds them together (operators without a
  // lowering).
  ExportError(ErrorKind kind, std::vector<Fault> faults, std::string hint = {});

  ErrorKind kind() const { return kind_; }
  const std::vector<Fault>& faults() const { return faults_; }
  // These describe the first fault.
  const std::string& cause() const { return faults_.front().cause; }
  const std::string& op() const { return faults_.front().op; }
  const Location& location() const { return faults_.front().location; }
  const std::string& hint() const { return hint_; }
  const char* what() const noexcept override { return text_.c_str(); }

  // Set the call or the location of the first fault; no effect if an inner call has already set it.
  void add_node(const std::string& op, const std::string& node);
  void add_location(const Location& location);
  // Prepends words to the cause.
  void add_prefix(const std::string& words);

 private:
  void render();

  ErrorKind kind_;
  std::vector<Fault> faults_;
  std::string hint_;
  std::string text_;
};

// Returns the source line and the module, each on its own line with a leading line break; empty if
// nothing is known or `location` is nullptr.
std::string where(const Location* location);

// Concatenates all parts of a message into one string.
template <class... Parts>
std::string concat(const Parts&... parts) {
  std::ostringstream out;
  (out << ... << parts);
  return out.str();
}

template <class... Parts>
[[noreturn]] void fail(ErrorKind kind, const Parts&... parts) {  // throws ExportError
  throw ExportError(kind, concat(parts...));
}

// Checks an invariant of the exporter; throws ExportError(internal) if it is broken.
template <class... Parts>
void require(bool condition, const Parts&... parts) {
  if (!condition) fail(ErrorKind::internal, parts...);
}

}  // namespace onnx_native
