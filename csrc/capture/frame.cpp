#include "capture/frame.h"

#include <algorithm>
#include <cstdint>

#include "base/error.h"
#include "capture/recorded_tensor.h"

namespace onnx_native::capture {

aten::Value* Frame::add_input(std::string_view name, aten::Type type) {
  aten::Value* value = graph_->add_input(name, std::move(type));
  types_.define(*value);
  return value;
}

aten::Value* Frame::find_value(int64_t id) const {
  const auto at = values_.find(id);
  return at == values_.end() ? nullptr : at->second;
}

aten::Value* Frame::value(int64_t id) {
  if (aten::Value* known = find_value(id)) return known;
  aten::Value* outside = outer_ ? outer_->value(id) : nullptr;
  return outside ? values_[id] = capture(outside) : nullptr;
}

aten::Value* Frame::capture(aten::Value* outer) {
  const auto [at, inserted] = inputs_of_.try_emplace(outer, nullptr);
  if (!inserted) return at->second;
  captured_.push_back(outer);
  at->second = add_input(outer->name, outer->type);
  layouts_.copy(outer, at->second);
  return at->second;
}

aten::Value* Frame::input_of(aten::Value* outer) {
  const auto at = inputs_of_.find(outer);
  return at == inputs_of_.end() ? graph_->add_input(outer->name, outer->type) : at->second;
}

aten::Value* Frame::capture_from_program(aten::Value* value) {
  return outer_ ? capture(outer_->capture_from_program(value)) : value;
}

// Returns the tensor that a value is an element of, and where the element is, as text.
std::string Frame::origin(const aten::Value& value) {
  const aten::Node* node = value.producer;
  const aten::Value* from = node ? node->arguments[0].as_value() : nullptr;
  if (from && node->op == "aten::select.int" && node->arguments[2].get<int64_t>())
    return concat(origin(*from), "[", *node->arguments[1].get<int64_t>(), ":",
                  *node->arguments[2].get<int64_t>(), "]");
  if (from && node->op == "aten::unbind.int")
    return concat(origin(*from), "[", *node->arguments[1].get<int64_t>(), ":",
                  std::ranges::find(node->outputs, &value) - node->outputs.begin(), "]");
  return std::to_string(reinterpret_cast<uintptr_t>(&value));
}

std::optional<Dim>& Frame::count_of(const at::Tensor& meta) {
  std::vector<MaskCount>& counts = mask_counts_[storage_of(meta)];
  for (MaskCount& known : counts) {
    if (known.meta.is_same(meta)) return known.count;
  }
  return counts.emplace_back(MaskCount{.meta = meta, .count = {}}).count;
}

}  // namespace onnx_native::capture
