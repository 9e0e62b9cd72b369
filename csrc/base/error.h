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

class ExportError : public std::runtime_error {
 public:
  ExportError(ErrorKind kind, const std::string& message)
      : std::runtime_error("[" + std::string(name(kind)) + "]: " + message), kind_(kind) {}
  ErrorKind kind() const { return kind_; }

 private:
  ErrorKind kind_;
};

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
