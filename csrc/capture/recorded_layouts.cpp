// How the results of a recorded call lie in memory.
#include <algorithm>
#include <unordered_set>
#include <utility>

#include "aten/view_kinds.h"
#include "aten/visit.h"
#include "capture/memory_layouts.h"
#include "capture/recorded_call.h"

namespace onnx_native::capture {

// Gives the operands their layouts if no call of the program made them.
void RecordedCall::settle_operands() {
  if (!decisions_.has_symbols()) return;
  for (size_t i = 0; i < std::min(arguments_.size(), node_->arguments.size()); ++i) {
    std::vector<at::Tensor> tensors;
    std::vector<const aten::Value*> values;
    for_each_tensor(arguments_[i], [&](const at::Tensor& each) { tensors.push_back(each); });
    aten::for_each_value(node_->arguments[i], [&](const aten::Value* value) {
      if (value->type.is_tensor()) values.push_back(value);
    });
    if (tensors.size() != values.size()) continue;
    for (size_t k = 0; k < tensors.size(); ++k)
      recording_.layouts().settle(values[k], recording_.meta_of(tensors[k]));
  }
}

void RecordedCall::record_layouts(const std::vector<at::Tensor>& metas) {
  if (!decisions_.has_symbols()) return;
  std::unordered_set<const c10::StorageImpl*> given;
  for (const c10::IValue& argument : arguments_)
    for_each_tensor(argument, [&](const at::Tensor& tensor) {
      if (!tensor.unsafeGetTensorImpl()->is_wrapped_number())
        given.insert(storage_of(recording_.meta_of(tensor)));
    });
  recording_.layouts().record(
      *node_, metas, [&](const at::Tensor& meta) { return given.contains(storage_of(meta)); });
}

// Returns true if contiguous() returns its argument at all sizes. If it does only in the example,
// the result must not be the argument itself.
bool RecordedCall::is_always_same() const {
  if (aten::kind_of(*schema_) != aten::ViewKind::contiguous) return true;
  const RecordedTensor* self = recorded(arguments_[0].toTensor());
  if (!self) return true;
  const c10::IValue& format = arguments_[static_cast<size_t>(schema_->index("memory_format"))];
  const auto to =
      format.isInt() ? static_cast<at::MemoryFormat>(format.toInt()) : at::MemoryFormat::Contiguous;
  return self->sym_is_contiguous_custom(to).maybe_as_bool().value_or(false);
}

// view() fails where the sizes demand a copy.
void RecordedCall::check_view() {
  if (!symbolic_ || (key_ != "aten::view" && key_ != "aten::view_as")) return;
  const RecordedTensor* self = recorded(arguments_[0].toTensor());
  const MemoryLayout* layout = self ? self->layout() : nullptr;
  const aten::Type& to = node_->outputs[0]->type;
  if (!layout || !layout->above_one.empty() || !to.shape) return;
  const aten::Condition condition = aten::is_viewable(self->shape(), layout->layout, *to.shape);
  if (condition.truth == aten::Condition::Truth::depends) decide(condition, "viewable", decisions_);
}

}  // namespace onnx_native::capture
