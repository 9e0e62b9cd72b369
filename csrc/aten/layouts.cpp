#include "aten/layouts.h"

#include "aten/op_facts.h"
#include "aten/visit.h"

namespace onnx_native::aten {
bool may_scatter(const Node& node, const std::function<bool(const Value*)>& is_scattered) {
  const int format = node.schema->index("memory_format");
  const auto* asked =
      format < 0 ? nullptr : node.arguments[static_cast<size_t>(format)].get<std::string>();
  if (asked && *asked == "contiguous_format") return false;
  if (asked && asked->starts_with("channels_last")) return true;
  const Strides strides = facts_of(*node.schema).strides;
  if (strides == Strides::of_matmul) {  // ATen folds the batch and transposes the result
    const Type& a = node.arguments[0].as_value()->type;
    const Type& b = node.arguments[1].as_value()->type;
    return !a.shape || !b.shape || a.shape->size() < b.shape->size();
  }
  if (strides == Strides::scattered) return true;
  if (strides == Strides::packed) return false;
  bool scattered = false;
  for (const Argument& argument : node.arguments) {
    for_each_value(argument,
                   [&](const Value* value) { scattered = scattered || is_scattered(value); });
  }
  return scattered;
}

}  // namespace onnx_native::aten
