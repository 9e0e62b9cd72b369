#include "aten/overlapping_writes.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "aten/fault.h"
#include "aten/view_kinds.h"
#include "aten/views.h"

namespace onnx_native::aten {
namespace {

// Operators that give an element the same value when they write it again.
bool is_idempotent(const Node& node) {
  static constexpr std::array<std::string_view, 19> kNames = {
      "aten::abs_",        "aten::ceil_",     "aten::clamp_max_",  "aten::clamp_min_",
      "aten::clamp_",      "aten::clip_",     "aten::fill_",       "aten::fix_",
      "aten::floor_",      "aten::hardtanh_", "aten::index_fill_", "aten::masked_fill_",
      "aten::nan_to_num_", "aten::relu6_",    "aten::relu_",       "aten::sgn_",
      "aten::sign_",       "aten::trunc_",    "aten::zero_"};
  if (std::ranges::find(kNames, node.schema->name) == kNames.end()) return false;
  const bool fills = node.schema->name.ends_with("fill_") || node.schema->name == "aten::fill_";
  // Bounds that are tensors differ from element to element.
  return fills || !node.op.ends_with(".Tensor");
}

bool is_one_element(const Argument* argument) {
  const Value* value = argument ? argument->as_value() : nullptr;
  return value && value->type.shape &&
         std::ranges::all_of(*value->type.shape, [](const Dim& size) { return size.equals(1); });
}

// A tensor of one value, such as `ones`.
bool is_filled(const Argument* argument) {
  static constexpr std::array<std::string_view, 10> kNames = {
      "aten::full", "aten::full_like", "aten::new_full",      "aten::new_ones", "aten::new_zeros",
      "aten::ones", "aten::ones_like", "aten::scalar_tensor", "aten::zeros",    "aten::zeros_like"};
  const Value* value = argument ? argument->as_value() : nullptr;
  const Node* producer = value ? value->producer : nullptr;
  if (!producer || !producer->schema) return false;
  return std::ranges::find(kNames, producer->schema->name) != kNames.end();
}

// All elements that the call writes get one value.
bool writes_one_value(const Node& node) {
  if (!node.schema) return false;
  if (is_idempotent(node)) return true;
  if (node.schema->name == "aten::copy_") {
    const Argument* source = find_argument(node, "src");
    return is_one_element(source) || is_filled(source);
  }
  if (node.schema->name != "aten::index_put_") return false;
  const Argument* accumulate = find_argument(node, "accumulate");
  const bool* adds = accumulate ? accumulate->get<bool>() : nullptr;
  return adds && !*adds && is_one_element(find_argument(node, "values"));
}

}  // namespace

void check_overlapping_write(const Node& node, const Tensor& written,
                             const std::function<std::optional<Layout>()>& layout) {
  bool overlaps = false;
  for (const Tensor* at = &written; at->view && !overlaps; at = at->view->base)
    overlaps = may_overlap(*at->view->node, at->output);
  if (!overlaps || writes_one_value(node)) return;
  const View& view = *written.view;
  const Type& type = view.node->outputs[static_cast<size_t>(written.output)]->type;
  const std::optional<Layout> known = layout();
  if (!type.shape || !known || !is_known_to_overlap(*type.shape, *known)) return;
  fail_unsupported(node, concat("a write to %", written.names.front()->name,
                                ", of which several elements are at one place in memory: the "
                                "result depends on the order of the writes; write to a clone() "
                                "instead"));
}

}  // namespace onnx_native::aten
