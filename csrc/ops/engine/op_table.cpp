#include "ops/engine/op_table.h"

namespace onnx_native::ops {

void OpTable::add(std::string_view op, Key key, Lowering lowering) {
  Entries& entries = entries_[static_cast<size_t>(key)];
  auto [it, inserted] = entries.try_emplace(std::string(op), std::move(lowering));
  if (!inserted) fail(ErrorKind::internal, op, " already has a lowering");
  keys_.emplace_back(op, key);
}

void OpTable::unary(std::string_view op, std::string_view onnx_op, Promote promote) {
  def(op, promote,
      [onnx_op = std::string(onnx_op)](Builder& b, Value self) { return b.op(onnx_op, {self}); });
}

void OpTable::binary(std::string_view op, std::string_view onnx_op, Promote promote) {
  def(op, promote, [onnx_op = std::string(onnx_op)](Builder& b, Value self, Value other) {
    return b.op(onnx_op, {self, other});
  });
}

void OpTable::alias(std::string_view op, std::string_view target) {
  const Lowering* lowering = find(target);
  if (!lowering)
    fail(ErrorKind::internal, "cannot make ", op, " an alias of ", target,
         ", which has no lowering");
  add(op, Key::dense, Lowering(*lowering));
}

void OpTable::override_def(std::string op, Lowering lowering) {
  overrides_.insert_or_assign(std::move(op), std::move(lowering));
}

void OpTable::remove_override(std::string_view op) { overrides_.erase(std::string(op)); }

const Lowering* OpTable::find(std::string_view op, Key key) const {
  auto in = [op](const Entries& entries) -> const Lowering* {
    auto it = entries.find(op);
    return it == entries.end() ? nullptr : &it->second;
  };
  if (const Lowering* own = in(overrides_)) return own;
  if (const Lowering* exact = in(entries_[static_cast<size_t>(key)])) return exact;
  return key == Key::quantized ? in(entries_[static_cast<size_t>(Key::dense)]) : nullptr;
}

}  // namespace onnx_native::ops
