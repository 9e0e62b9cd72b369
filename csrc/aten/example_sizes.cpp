#include "aten/example_sizes.h"

#include <functional>
#include <string_view>

#include "aten/fault.h"

namespace onnx_native::aten {
namespace {

bool was_one(const Dim& dim, const Hints& hints) {
  if (dim.is_constant()) return false;
  const Dim value = dim.substitute([&hints](std::string_view symbol) -> std::optional<Dim> {
    const auto hint = hints.find(std::string(symbol));
    return hint == hints.end() ? std::nullopt : std::optional(Dim(hint->second));
  });
  return value.equals(1);
}

// Returns the axes that a squeeze names; nullopt means all axes.
std::optional<std::vector<int64_t>> squeezed_axes(const Node& node) {
  if (node.arguments.size() < 2) return std::nullopt;
  std::vector<int64_t> axes;
  const Argument& given = node.arguments[1];
  if (const auto* axis = given.get<int64_t>()) axes.push_back(*axis);
  if (const auto* list = given.get<Argument::List>()) {
    for (const Argument& item : *list) {
      if (const auto* axis = item.get<int64_t>()) axes.push_back(*axis);
    }
  }
  return axes;
}

// Calls `visit` with each dimension that a squeeze removes if its size is 1, and its axis.
template <class Visit>
void for_each_squeezed(const Node& node, const Visit& visit) {
  const Value* input = node.arguments.empty() ? nullptr : node.arguments[0].as_value();
  if (!input || !input->type.shape) return;
  const Shape& shape = *input->type.shape;
  const auto rank = static_cast<int64_t>(shape.size());
  const auto visit_axis = [&](int64_t axis) {
    if (axis < 0) axis += rank;
    if (axis >= 0 && axis < rank) visit(shape[static_cast<size_t>(axis)], axis);
  };
  if (const auto axes = squeezed_axes(node)) {
    for (const int64_t axis : *axes) visit_axis(axis);
  } else {
    for (int64_t axis = 0; axis < rank; ++axis) visit_axis(axis);
  }
}

void check_squeeze(const Node& node, const Hints& hints) {
  for_each_squeezed(node, [&](const Dim& size, int64_t axis) {
    if (!was_one(size, hints)) return;
    fail_unsupported(
        node,
        concat("dimension ", axis, " has the dynamic size ", size.str(),
               ", which was 1 in the example; a squeeze removes a dimension only if its size is 1, "
               "so the rank of the result would be data-dependent; make the dimension static, or "
               "export with an example in which its size is not 1"));
  });
}

// torch.export records that sizes of inputs are at least 2, which nobody stated; more was stated.
bool may_be_one(const Dim& size) {
  const auto at_least = [](const Dim& dim, int64_t low) {
    return dim.range().low.value_or(0) >= low;
  };
  return !size.is_constant() && !at_least(size, 2) && !at_least(size.as_captured(), 3);
}

bool is_squeeze(std::string_view op) {
  const std::string_view name = op.substr(0, op.find('.'));
  return name == "aten::squeeze" || name == "aten::squeeze_" || name == "aten::squeeze_copy";
}

// Calls `visit` with each squeeze, also of subgraphs.
void for_each_squeeze(const Graph& graph, const std::function<void(const Node&)>& visit) {
  for (const Node* node : graph.nodes) {
    if (is_squeeze(node->op)) visit(*node);
    for (const Argument& argument : node->arguments) {
      if (const auto* body = argument.get<std::shared_ptr<Graph>>())
        for_each_squeeze(**body, visit);
    }
  }
}

}  // namespace

void check_squeezes(const Graph& graph, const Hints& hints) {
  if (hints.empty()) return;
  for_each_squeeze(graph, [&](const Node& node) { check_squeeze(node, hints); });
}

std::vector<std::string> kept_dimensions(const Graph& graph) {
  std::vector<std::string> messages;
  for_each_squeeze(graph, [&](const Node& node) {
    for_each_squeezed(node, [&](const Dim& size, int64_t axis) {
      if (!may_be_one(size)) return;
      messages.push_back(concat(node.op, ": the model keeps dimension ", axis, " of size ",
                                size.str(), ", also where the size is 1 and eager removes it",
                                where(node.location)));
    });
  });
  return messages;
}

}  // namespace onnx_native::aten
