#include "aten/layouts.h"

#include <algorithm>
#include <memory>
#include <unordered_set>

#include "aten/op_facts.h"
#include "aten/view_kinds.h"
#include "aten/visit.h"

namespace onnx_native::aten {
namespace {

// Returns true if outputs of a subgraph may be non-contiguous.
bool has_scattered_outputs(const Graph& graph, bool has_scattered_inputs) {
  std::unordered_set<const Value*> scattered;
  if (has_scattered_inputs) scattered.insert(graph.inputs.begin(), graph.inputs.end());
  for (const Constant& constant : graph.constants)
    if (!constant.data.is_contiguous()) scattered.insert(constant.value);
  for (const Node* node : graph.nodes) {
    if ((node->schema && facts_of(kind_of(*node->schema)).scatters) ||
        may_scatter(*node, [&](const Value* value) { return scattered.contains(value); }))
      scattered.insert(node->outputs.begin(), node->outputs.end());
  }
  return std::ranges::any_of(graph.outputs, [&](const Argument& output) {
    return output.as_value() && scattered.contains(output.as_value());
  });
}

bool has_scattered_operand(const Node& node,
                           const std::function<bool(const Value*)>& is_scattered) {
  bool scattered = false;
  for (const Argument& argument : node.arguments) {
    for_each_value(argument,
                   [&](const Value* value) { scattered = scattered || is_scattered(value); });
  }
  return scattered;
}

// Returns true if a call pads a tensor that is not a batch of images, by zeros or more, and at
// least at one end.
bool pads_to_packed(const Node& node) {
  const Type* self = base_type(node);
  const auto* pads = node.arguments[1].get<Argument::List>();
  const Argument* mode = find_argument(node, "mode");
  const auto* kind = mode ? mode->get<std::string>() : nullptr;
  if (!self || !self->shape || !pads || (kind && *kind != "constant")) return false;
  if (self->shape->size() == 4 || self->shape->size() == 5) return false;
  bool any = false;
  for (const Argument& pad : *pads) {
    const std::optional<Dim> size = size_of(pad);
    if (!size || !size->known_non_negative()) return false;
    any = any || size->known_positive();
  }
  return any;
}

}  // namespace

bool may_scatter(const Node& node, const std::function<bool(const Value*)>& is_scattered) {
  if (!node.schema) {
    return std::ranges::any_of(node.arguments, [&](const Argument& argument) {
      const auto* body = argument.get<std::shared_ptr<Graph>>();
      return body && has_scattered_outputs(**body, has_scattered_operand(node, is_scattered));
    });
  }
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
  if (strides == Strides::of_pad && pads_to_packed(node)) return false;
  if (strides == Strides::of_self) {
    const Value* self = node.arguments[0].as_value();
    return self && is_scattered(self);
  }
  return strides != Strides::packed && has_scattered_operand(node, is_scattered);
}

}  // namespace onnx_native::aten
