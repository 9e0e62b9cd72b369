#include "readers/jit/interpreter.h"

namespace onnx_native::readers::jit {

Items Interpreter::branch(const JitNode& node, const Item& condition) {
  const std::optional<bool> known = condition.boolean();
  if (!known) unsupported("a branch that depends on data");
  return run(*node.blocks()[*known ? 0 : 1], {});
}

}  // namespace onnx_native::readers::jit
