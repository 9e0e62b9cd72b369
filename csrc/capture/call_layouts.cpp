#include "capture/call_layouts.h"

#include <algorithm>
#include <unordered_set>
#include <utility>

#include "aten/view_kinds.h"
#include "aten/visit.h"
#include "capture/memory_layouts.h"

namespace onnx_native::capture {

void settle_operands(const Call& call, const aten::Node& node) {
  if (!call.decisions().has_symbols()) return;
  for (size_t i = 0; i < std::min(call.arguments.size(), node.arguments.size()); ++i) {
    std::vector<at::Tensor> tensors;
    std::vector<const aten::Value*> values;
    for_each_tensor(call.arguments[i], [&](const at::Tensor& each) { tensors.push_back(each); });
    aten::for_each_value(node.arguments[i], [&](const aten::Value* value) {
      if (value->type.is_tensor()) values.push_back(value);
    });
    if (tensors.size() != values.size()) continue;
    for (size_t k = 0; k < tensors.size(); ++k)
      call.recording.layouts().settle(values[k], call.recording.meta_of(tensors[k]));
  }
}

void record_layouts(const Call& call, const aten::Node& node,
                    const std::vector<at::Tensor>& metas) {
  if (!call.decisions().has_symbols()) return;
  std::unordered_set<const c10::StorageImpl*> given;
  for (const c10::IValue& argument : call.arguments)
    for_each_tensor(argument, [&](const at::Tensor& tensor) {
      if (!tensor.unsafeGetTensorImpl()->is_wrapped_number())
        given.insert(storage_of(call.recording.meta_of(tensor)));
    });
  call.recording.layouts().record(
      node, metas, [&](const at::Tensor& meta) { return given.contains(storage_of(meta)); });
}

bool is_always_same(const Call& call) {
  if (aten::kind_of(*call.schema) != aten::ViewKind::contiguous) return true;
  const RecordedTensor* self = recorded(call.arguments[0].toTensor());
  if (!self) return true;
  const c10::IValue& format =
      call.arguments[static_cast<size_t>(call.schema->index("memory_format"))];
  const auto to =
      format.isInt() ? static_cast<at::MemoryFormat>(format.toInt()) : at::MemoryFormat::Contiguous;
  return self->sym_is_contiguous_custom(to).maybe_as_bool().value_or(false);
}

void check_view(const Call& call, const aten::Node& node) {
  if (call.key != "aten::view" && call.key != "aten::view_as") return;
  const RecordedTensor* self = recorded(call.arguments[0].toTensor());
  const MemoryLayout* layout = self ? self->layout() : nullptr;
  const aten::Type& to = node.outputs[0]->type;
  if (!layout || !layout->above_one.empty() || !to.shape) return;
  const aten::Condition condition = aten::is_viewable(self->shape(), layout->layout, *to.shape);
  if (condition.truth == aten::Condition::Truth::depends)
    decide(condition, "viewable", call.decisions());
}

}  // namespace onnx_native::capture
