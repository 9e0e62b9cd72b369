#include "onnx/importers.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <string>
#include <string_view>

#include "base/error.h"

namespace onnx_native::onnx {
namespace {

struct Untaken {
  Target target;
  std::string_view version;
  std::string_view op_type;
};

constexpr Untaken kUntaken[] = {
#include "onnx/importers.inc"
};

// Returns true for what MNN takes, and gives wrong numbers for.
bool is_wrong_in_mnn(const Node& node) {
  if (node.op_type != "Resize") return false;
  const std::string mode = node.attribute_string("mode", "nearest");
  if (mode == "nearest") return node.attribute_string("nearest_mode", "") == "ceil";
  const std::string places = node.attribute_string("coordinate_transformation_mode", "half_pixel");
  return mode == "cubic" && (node.attribute_float("cubic_coeff_a", -0.75) != -0.75 ||
                             (places != "align_corners" && places != "asymmetric"));
}

// Returns true if the row is about the node.
bool is_about(const Untaken& row, const Node& node, Target target) {
  if (row.target != target) return false;
  return row.op_type == node.op_type || (target == Target::mnn && is_wrong_in_mnn(node)) ||
         (target == Target::opencv && has_other_scales(node));  // it takes the ratios
}

}  // namespace

bool has_other_scales(const Node& node) {
  const Value* scales = node.input(2);
  if (!node.is("Resize") || !scales) return false;
  if (node.attribute_string("coordinate_transformation_mode", "half_pixel") == "align_corners")
    return false;
  if (!scales->is_constant()) return true;
  const Value& from = *node.inputs[0];
  const Value& to = *node.outputs[0];
  const int64_t rank = scales->constant->numel();
  const bool has_sizes = rank > 0 && from.rank_or(-1) == rank && to.rank_or(-1) == rank;
  for (int64_t axis = 0; axis < rank; ++axis) {
    const double scale = scales->constant->number(static_cast<size_t>(axis));
    if (scale == std::floor(scale)) continue;
    if (!has_sizes) return true;
    const auto sizes = constant_shape({from.dim(axis), to.dim(axis)});
    if (!sizes || static_cast<double>(sizes->front()) * scale != static_cast<double>(sizes->back()))
      return true;
  }
  return false;
}

std::vector<std::string> untaken_operators(Model& model) {
  std::vector<std::string> result;
  std::set<std::string_view> seen;
  const auto visit = [&](Graph& graph) {
    for (const Node* node : graph.nodes) {
      if (!node->domain.empty()) continue;
      const auto* row = std::ranges::find_if(
          kUntaken, [&](const Untaken& each) { return is_about(each, *node, model.target); });
      if (row == std::ranges::end(kUntaken) || !seen.insert(node->op_type).second) continue;
      result.push_back(concat(name(model.target), " ", row->version, " does not take ",
                              node->op_type, where(node->location)));
    }
  };
  if (std::ranges::find(kUntaken, model.target, &Untaken::target) == std::ranges::end(kUntaken))
    return result;
  for_each_graph(*model.graph, visit);
  for (Function& function : model.functions) for_each_graph(*function.body, visit);
  return result;
}

}  // namespace onnx_native::onnx
