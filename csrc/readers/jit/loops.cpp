#include "readers/jit/interpreter.h"

namespace onnx_native::readers::jit {

Items Interpreter::loop(const JitNode& node, const Items& inputs) {
  const std::optional<int64_t> most = inputs.at(0).integer();
  std::optional<bool> again = inputs.at(1).boolean();
  if (!most || !again) unsupported("a loop that depends on data");
  Items carried(inputs.begin() + 2, inputs.end());
  for (int64_t i = 0; i < *most && *again; ++i) {
    Items arguments{Dim(i)};
    arguments.insert(arguments.end(), carried.begin(), carried.end());
    Items results = run(*node.blocks()[0], arguments);
    again = results.at(0).boolean();
    if (!again) unsupported("a loop that depends on data");
    carried.assign(results.begin() + 1, results.end());
  }
  return carried;
}

}  // namespace onnx_native::readers::jit
