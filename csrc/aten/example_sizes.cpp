#include "aten/example_sizes.h"

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

void check_squeeze(const Node& node, const Hints& hints) {
  const Value* input = node.arguments.empty() ? nullptr : node.arguments[0].as_value();
  if (!input || !input->type.shape) return;
  const Shape& shape = *input->type.shape;
  const auto rank = static_cast<int64_t>(shape.size());
  const auto check = [&](int64_t axis) {
    if (axis < 0) axis += rank;
    if (axis < 0 || axis >= rank || !was_one(shape[static_cast<size_t>(axis)], hints)) return;
    fail_unsupported(
        node,
        concat("dimension ", axis, " has the dynamic size ", shape[static_cast<size_t>(axis)].str(),
               ", which was 1 in the example; a squeeze removes a dimension only if its size is 1, "
               "so the rank of the result would be data-dependent; make the dimension static, or "
               "export with an example in which its size is not 1"));
  };
  if (const auto axes = squeezed_axes(node)) {
    for (const int64_t axis : *axes) check(axis);
  } else {
    for (int64_t axis = 0; axis < rank; ++axis) check(axis);
  }
}

bool is_squeeze(std::string_view op) {
  const std::string_view name = op.substr(0, op.find('.'));
  return name == "aten::squeeze" || name == "aten::squeeze_" || name == "aten::squeeze_copy";
}

void check_nodes(const Graph& graph, const Hints& hints) {
  for (const Node* node : graph.nodes) {
    if (is_squeeze(node->op)) check_squeeze(*node, hints);
    for (const Argument& argument : node->arguments) {
      if (const auto* body = argument.get<std::shared_ptr<Graph>>()) check_nodes(**body, hints);
    }
  }
}

}  // namespace

void check_squeezes(const Graph& graph, const Hints& hints) {
  if (!hints.empty()) check_nodes(graph, hints);
}

}  // namespace onnx_native::aten
