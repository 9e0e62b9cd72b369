#include <algorithm>
#include <cstddef>

#include "base/dim_data.h"
#include "onnx/builder.h"
#include "passes/passes.h"
#include "passes/rewrite.h"

namespace onnx_native::passes {
namespace {

using onnx::Graph;
using onnx::Node;
using onnx::UseCounts;
using onnx::Value;
using Ints = std::vector<int64_t>;

// A slice with a negative step can keep the shape and reverse the elements.
bool steps_forward(const Node& node) {
  const Value* steps = node.input(4);
  if (!steps) return true;
  return steps->contents && std::ranges::all_of(*steps->contents, [](const Dim& step) {
           return step.constant_or(0) > 0;
         });
}

// Returns true for a Reshape that fails unless a broadcast left the size of one operand unchanged,
// or unless a count is a size of inputs. A check of counts computes its target from a condition.
bool checks_sizes(const Node& node) {
  if (node.op_type != "Reshape") return false;
  const Value& target = *node.inputs[1];
  if (!target.contents && target.producer && target.producer->is_any({"Add", "Slice"})) return true;
  const auto& from = node.inputs[0]->shape;
  const auto& to = node.outputs[0]->shape;
  if (!from || !to || numel(*from) == numel(*to)) return false;
  if (std::ranges::any_of(*from, &Dim::is_broadcast)) return true;
  return from->size() == to->size() && std::ranges::any_of(*from, depends_on_data) &&
         std::ranges::none_of(*to, depends_on_data);
}

bool changes_nothing(const Node& node) {
  if (checks_sizes(node)) return false;
  if (node.is("Concat")) return node.inputs.size() == 1;
  if (!node.is_any({"Reshape", "Expand", "Slice", "Squeeze", "Unsqueeze", "Flatten"})) {
    return false;
  }
  const auto& from = node.inputs[0]->shape;
  const auto& to = node.outputs[0]->shape;
  if (!from || !to || *from != *to) return false;
  return node.op_type != "Slice" || steps_forward(node);
}

// Returns a constant target with which Reshape(from) gives the shape `to`: -1 for one unknown size,
// or 0, which copies the input's size, for every unknown size. Never both: if a copied size is 0 at
// run time, -1 is ambiguous. Returns nullopt if `to` has a size that is a constant 0.
std::optional<Ints> constant_target(const Shape& from, const Shape& to) {
  Ints sizes;
  int64_t unknown = 0;
  bool copied = true;
  for (size_t i = 0; i < to.size(); ++i) {
    if (to[i].equals(0)) return std::nullopt;
    sizes.push_back(to[i].constant_or(-1));
    if (to[i].is_constant()) continue;
    ++unknown;
    copied &= i < from.size() && from[i] == to[i];
  }
  if (unknown <= 1) return sizes;
  if (!copied) return std::nullopt;
  std::ranges::replace(sizes, -1, 0);
  return sizes;
}

bool keeps_elements(const Node* node) {
  return node && node->is_any({"Reshape", "Squeeze", "Unsqueeze", "Flatten"}) &&
         !checks_sizes(*node);
}

// Returns the value at the start of the chain of reshapes that this node ends.
Value* start_of_chain(const Node& node) {
  Value* source = node.inputs[0];
  while (keeps_elements(source->producer)) source = source->producer->inputs[0];
  return source;
}

// Some importers refuse the attribute.
void drop_allowzero(Rewrite& rewrite, Node& node) {
  const size_t dropped =
      std::erase_if(node.attributes, [](const auto& each) { return each.name == "allowzero"; });
  if (dropped > 0) rewrite.set_changed();
}

void simplify_reshape(Rewrite& rewrite, Graph& graph, Node& node) {
  if (checks_sizes(node)) return;
  const auto& to = node.outputs[0]->shape;
  // In a chain of reshapes, only the last one matters.
  Value* source = start_of_chain(node);
  if (to && source->shape && *source->shape == *to && rewrite.replace(node.outputs[0], source)) {
    return;
  }
  Value* target = node.inputs[1];
  bool is_new = false;
  if (to && (!target->is_constant() || source != node.inputs[0])) {
    auto sizes = source->shape ? constant_target(*source->shape, *to) : std::nullopt;
    if (!sizes && !target->is_constant() && node.inputs[0]->shape && source != node.inputs[0]) {
      source = node.inputs[0];
      sizes = constant_target(*source->shape, *to);
    }
    if (sizes) {
      target = graph.add_integers(*sizes);
      is_new = true;
      std::erase_if(node.attributes, [](const auto& each) { return each.name == "allowzero"; });
    }
  }
  // A 0 copies a size of this input; another input may have a different size there.
  const bool copies = !target->contents || std::ranges::any_of(*target->contents, [](const Dim& d) {
    return d.equals(0) || !d.is_constant();
  });
  if (!is_new && copies) source = node.inputs[0];
  if (!copies) drop_allowzero(rewrite, node);
  if (source == node.inputs[0] && target == node.inputs[1]) return;
  node.inputs = {source, target};
  rewrite.set_changed();
}

// Returns the axes of an Unsqueeze, counted from 0 and sorted, if they are constant.
std::optional<Ints> added_axes(const Node& node) {
  const Value* given = node.input(1);
  const auto& shape = node.outputs[0]->shape;
  auto axes = given ? given->known_integers() : std::nullopt;
  if (!axes || !shape) return std::nullopt;
  for (int64_t& axis : *axes) axis += axis < 0 ? static_cast<int64_t>(shape->size()) : 0;
  std::ranges::sort(*axes);
  return axes;
}

// Merges an Unsqueeze of an Unsqueeze.
bool merge_unsqueezes(Rewrite& rewrite, Graph& graph, Node& node) {
  const Node& inner = *node.inputs[0]->producer;
  if (!node.is("Unsqueeze") || !inner.is("Unsqueeze")) return false;
  const auto outer_axes = added_axes(node);
  const auto inner_axes = added_axes(inner);
  if (!outer_axes || !inner_axes) return false;
  Ints axes = *outer_axes;
  int64_t place = 0;  // in the inner result
  for (int64_t axis = 0; axis < node.outputs[0]->rank(); ++axis) {
    if (std::ranges::find(*outer_axes, axis) != outer_axes->end()) continue;
    if (std::ranges::find(*inner_axes, place++) != inner_axes->end()) axes.push_back(axis);
  }
  std::ranges::sort(axes);
  node.inputs = {inner.inputs[0], graph.add_integers(axes)};
  rewrite.set_changed();
  return true;
}

// Ends a chain of reshapes that is not a Reshape itself: removes it if it restores the shape, else
// makes it one Reshape if a constant target can express it.
void simplify_chain(Rewrite& rewrite, Graph& graph, Node& node, const UseCounts& uses) {
  Value* inner = node.inputs[0];
  const auto& to = node.outputs[0]->shape;
  if (!keeps_elements(inner->producer) || !to) return;
  Value* source = start_of_chain(node);
  if (source->shape && *source->shape == *to && rewrite.replace(node.outputs[0], source)) return;
  if (merge_unsqueezes(rewrite, graph, node)) return;
  if (!source->shape || inner->graph != node.outputs[0]->graph || uses.at(inner) != 1) return;
  const auto sizes = constant_target(*source->shape, *to);
  if (!sizes) return;
  node.op_type = "Reshape";
  node.attributes.clear();
  node.inputs = {source, graph.add_integers(*sizes)};
  rewrite.set_changed();
}

// A 1 in the target keeps the input's size, so it can stand for an unknown size.
void simplify_expand(Rewrite& rewrite, Graph& graph, Node& node) {
  const auto& from = node.inputs[0]->shape;
  const auto& to = node.outputs[0]->shape;
  if (!from || !to || node.inputs[1]->is_constant() || from->size() > to->size()) return;
  const size_t lead = to->size() - from->size();
  Ints sizes;
  for (size_t i = 0; i < to->size(); ++i) {
    if (const auto size = (*to)[i].constant()) {
      sizes.push_back(*size);
    } else if (i >= lead && (*from)[i - lead] == (*to)[i]) {
      sizes.push_back(1);
    } else {
      return;
    }
  }
  node.inputs[1] = graph.add_integers(sizes);
  rewrite.set_changed();
}

// Returns how many times larger the sizes are, if each is a whole multiple.
std::optional<std::vector<double>> multiples(const Shape& from, const Shape& to) {
  std::vector<double> factors;
  for (size_t i = 0; i < from.size() && from.size() == to.size(); ++i) {
    if (from[i].equals(0)) return std::nullopt;
    const auto factor = from[i] == to[i] ? 1 : Dim::floor_div(to[i], from[i]).constant_or(0);
    if (factor < 1 || from[i] * Dim(factor) != to[i]) return std::nullopt;
    factors.push_back(static_cast<double>(factor));
  }
  return factors.size() == to.size() ? std::optional(factors) : std::nullopt;
}

// Computed sizes of a Resize that are whole multiples of the input's become constant scales. The
// kernel rounds a scale times a size to the same size.
void simplify_resize(Rewrite& rewrite, Graph& graph, Node& node) {
  const Value* sizes = node.input(3);
  const Value& x = *node.inputs[0];
  if (!sizes || sizes->is_constant() || !sizes->contents || !x.shape || node.input(1)) return;
  if (node.attribute("axes") || node.attribute("keep_aspect_ratio_policy")) return;
  const auto factors = multiples(*x.shape, *sizes->contents);
  if (!factors) return;
  TensorData scales =
      make_tensor(DType::f32, {static_cast<int64_t>(factors->size())}, std::span(*factors));
  node.inputs = {node.inputs[0], nullptr, graph.add_initializer("", std::move(scales))};
  rewrite.set_changed();
}

void choose_branch(Rewrite& rewrite, Node& node) {
  const TensorData* condition = node.inputs[0]->constant;
  if (!condition || condition->numel() != 1) return;
  const auto* branch = node.attribute(condition->integer(0) != 0 ? "then_branch" : "else_branch");
  // The node owns the branch until the sweep ends.
  rewrite.inline_body(node, **std::get_if<std::shared_ptr<Graph>>(branch));
}

// Removes the operands of a Concat that have no elements, except the last one left.
void drop_empty_operands(Rewrite& rewrite, Node& node) {
  const int64_t rank = node.outputs[0]->rank_or(0);
  if (rank == 0) return;
  const auto axis = static_cast<size_t>(normalize_axis(node.attribute_int("axis", 0), rank));
  const auto is_empty = [axis](const Value* value) {
    return value->rank_or(0) > static_cast<int64_t>(axis) && (*value->shape)[axis].equals(0);
  };
  for (size_t i = node.inputs.size(); i-- > 0 && node.inputs.size() > 1;) {
    if (!is_empty(node.inputs[i])) continue;
    node.inputs.erase(node.inputs.begin() + static_cast<std::ptrdiff_t>(i));
    rewrite.set_changed();
  }
}

}  // namespace

// Uses symbolic equality of shapes. Removes operands of Concat without elements, and a Reshape,
// Expand, Slice, Squeeze, Unsqueeze, Flatten or Concat that has no effect, and merges chains of
// reshapes. Gives Reshape and Expand a constant target if 0, -1 or 1 can stand for the unknown
// sizes, and Resize constant scales if they are whole numbers. Replaces an If whose condition is
// constant with its branch.
int64_t simplify_shapes(onnx::Model& model) {
  const UseCounts uses = onnx::count_uses(*model.graph);
  return sweep(model, [&uses](Rewrite& rewrite, Graph& graph, Node& node) {
    if (node.is("Concat")) drop_empty_operands(rewrite, node);
    if (changes_nothing(node) && rewrite.replace(node.outputs[0], node.inputs[0])) return;
    if (node.is("Reshape")) {
      simplify_reshape(rewrite, graph, node);
    } else if (keeps_elements(&node)) {
      simplify_chain(rewrite, graph, node, uses);
    }
    if (node.is("Expand")) simplify_expand(rewrite, graph, node);
    if (node.is("Resize")) simplify_resize(rewrite, graph, node);
    if (node.is("If")) choose_branch(rewrite, node);
  });
}

}  // namespace onnx_native::passes
