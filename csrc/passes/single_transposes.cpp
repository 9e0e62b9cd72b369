#include <algorithm>

#include "onnx/providers.h"
#include "passes/passes.h"
#include "passes/rewrite.h"

namespace onnx_native::passes {
namespace {

using onnx::Node;
using Ints = std::vector<int64_t>;

// Returns true if the axes whose size is not 1 keep their order.
bool moves_only_single_axes(const Ints& order, const Shape& shape) {
  int64_t last = -1;
  for (const int64_t axis : order) {
    if (shape[static_cast<size_t>(axis)].equals(1)) continue;
    if (axis < last) return false;
    last = axis;
  }
  return true;
}

// Returns the shape as the target of a Reshape; nullopt if several sizes are unknown or one is 0.
std::optional<Ints> target_of(const Shape& shape) {
  Ints sizes;
  for (const Dim& size : shape) {
    if (size.equals(0)) return std::nullopt;
    sizes.push_back(size.constant_or(-1));
  }
  return std::ranges::count(sizes, -1) <= 1 ? std::optional(sizes) : std::nullopt;
}

}  // namespace

// For ONNX Runtime: a Transpose that only moves axes of size 1 becomes a Reshape, which merges with
// the ones around it. So the heads of a decoder's single query need not be transposed.
int64_t reshape_single_axes(onnx::Model& model) {
  if (!onnx::has_provider(model.target)) return 0;
  return sweep(model, [](Rewrite& rewrite, onnx::Graph& graph, Node& node) {
    if (!node.is("Transpose")) return;
    const auto order = node.attribute_ints("perm");
    const auto& from = node.inputs[0]->shape;
    const auto& to = node.outputs[0]->shape;
    if (!order || !from || !to || from->size() != order->size()) return;
    const auto target = moves_only_single_axes(*order, *from) ? target_of(*to) : std::nullopt;
    if (!target) return;
    node.op_type = "Reshape";
    node.attributes.clear();
    node.inputs.push_back(graph.add_integers(*target));
    rewrite.set_changed();
  });
}

}  // namespace onnx_native::passes
