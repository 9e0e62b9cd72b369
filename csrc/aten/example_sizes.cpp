#include "aten/example_sizes.h"

#include <algorithm>
#include <functional>
#include <initializer_list>
#include <optional>
#include <string_view>
#include <unordered_set>
#include <utility>

#include "aten/fault.h"
#include "aten/op_facts.h"

namespace onnx_native::aten {
namespace {

// Returns true if the size was 1 in the example, in each of the first steps of a loop.
bool was_one(const Dim& dim, const Hints& hints) {
  if (dim.is_constant()) return false;
  const auto is_one_at = [&](int64_t unknown) {
    const Dim value = dim.substitute([&](std::string_view symbol) {
      const auto hint = hints.find(std::string(symbol));
      return std::optional(Dim(hint == hints.end() ? unknown : hint->second));
    });
    return value.equals(1);
  };
  return is_one_at(0) && is_one_at(1) && is_one_at(2);
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

bool is_one_of(std::string_view op, std::initializer_list<std::string_view> names) {
  return std::ranges::find(names, op.substr(0, op.find('.'))) != names.end();
}

bool is_squeeze(const Node& node) {
  return is_one_of(node.op, {"aten::squeeze", "aten::squeeze_", "aten::squeeze_copy"});
}

// Calls `visit` with each node, also of subgraphs.
void for_each_node(const Graph& graph, const std::function<void(const Node&)>& visit) {
  for (const Node* node : graph.nodes) {
    visit(*node);
    for (const Argument& argument : node->arguments) {
      if (const auto* body = argument.get<std::shared_ptr<Graph>>()) for_each_node(**body, visit);
    }
  }
}

// Calls `visit` with each squeeze, also of subgraphs.
void for_each_squeeze(const Graph& graph, const std::function<void(const Node&)>& visit) {
  for_each_node(graph, [&visit](const Node& node) {
    if (is_squeeze(node)) visit(node);
  });
}

Dim product(const Shape& shape) {
  Dim result(1);
  for (const Dim& size : shape) result = result * size;
  return result;
}

// The symbols that the results of a program mention.
std::unordered_set<std::string> symbols_of_results(const Graph& graph) {
  std::unordered_set<std::string> symbols;
  const auto add = [&symbols](const Dim& dim) {
    for (std::string& symbol : dim.symbols()) symbols.insert(std::move(symbol));
  };
  for (const Argument& output : graph.outputs) {
    const Value* value = output.as_value();
    if (value && value->type.dim) add(*value->type.dim);
    if (!value || !value->type.shape) continue;
    for (const Dim& size : *value->type.shape) add(size);
  }
  return symbols;
}

std::string fixed_message(const Node& node, const Dim& size, const std::string& condition) {
  return concat(node.op, ": the program fixes the dynamic size ", size.str(),
                ", so the model is valid only where ", condition,
                "; compute the size from the input's shape instead of a number",
                where(node.location));
}

// A call that takes sizes: its operand's shape, the sizes given, and the shape of its result.
struct SizedCall {
  const Shape& before;
  const Argument::List& given;
  const Shape& after;
  bool expands;
};

std::optional<SizedCall> sized_call(const Node& node) {
  const ViewKind kind = node.schema ? kind_by_shape(*node.schema) : ViewKind::none;
  if (kind == ViewKind::none || node.arguments.size() < 2 || node.outputs.empty())
    return std::nullopt;
  const Value* operand = node.arguments[0].as_value();
  const auto* given = node.arguments[1].get<Argument::List>();
  const std::optional<Shape>& result = node.outputs[0]->type.shape;
  if (!operand || !operand->type.shape || !given || !result) return std::nullopt;
  return SizedCall{*operand->type.shape, *given, *result, kind == ViewKind::expand};
}

// Returns true for a reshape of a dynamic number of elements to a fixed one.
bool fixes_elements(const SizedCall& call) {
  return !call.expands && product(call.after).is_constant() && !product(call.before).is_constant();
}

// Returns the dynamic size of the operand in whose place the call has the number of the example.
const Dim* size_of_example(const SizedCall& call, const Hints& hints,
                           const std::unordered_set<std::string>& used) {
  const size_t added = call.expands ? call.after.size() - call.before.size() : 0;
  for (size_t axis = 0; axis < call.before.size(); ++axis) {
    const Dim& size = call.before[axis];
    const size_t place = axis + added;
    if (!size.is_symbol() || used.contains(size.str()) || place >= call.given.size()) continue;
    const auto hint = hints.find(size.str());
    const auto* number = call.given[place].get<int64_t>();
    if (hint != hints.end() && number && *number == hint->second) return &size;
  }
  return nullptr;
}

// Returns the dynamic size that a chunk divides; nullptr if it is constant or unknown.
const Dim* chunked_size(const Node& node) {
  if (node.arguments.size() < 2) return nullptr;
  const Value* operand = node.arguments[0].as_value();
  if (!operand || !operand->type.shape || operand->type.shape->empty()) return nullptr;
  const auto* given = node.arguments.size() > 2 ? node.arguments[2].get<int64_t>() : nullptr;
  const auto rank = static_cast<int64_t>(operand->type.shape->size());
  const int64_t dim = given ? *given : 0;
  const Dim& size = operand->type.shape->at(dim < 0 ? dim + rank : dim);
  return size.is_constant() ? nullptr : &size;
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

std::vector<std::string> fixed_dimensions(const Graph& graph) {
  std::vector<std::string> messages;
  for_each_node(graph, [&](const Node& node) {
    const auto call = sized_call(node);
    if (!call || !fixes_elements(*call)) return;
    const Dim before = product(call->before);
    const std::string after = product(call->after).str();
    messages.push_back(fixed_message(node, before, concat(before.str(), " == ", after)));
  });
  return messages;
}

std::vector<std::string> fixed_counts(const Graph& graph) {
  std::vector<std::string> messages;
  for_each_node(graph, [&](const Node& node) {
    if (!is_one_of(node.op, {"aten::chunk", "aten::unsafe_chunk"}) || node.outputs.empty()) return;
    const Dim* size = chunked_size(node);
    const auto* chunks = node.arguments[1].get<int64_t>();
    // Two chunks of two or more elements are always two.
    if (!size || !chunks || *chunks <= 2) return;
    const Dim count = Dim::ceil_div(*size, Dim::ceil_div(*size, *chunks));
    if (count.is_constant()) return;
    messages.push_back(concat(
        node.op, ": the model makes ", node.outputs.size(), " pieces, so it is valid only where ",
        count.str(), " == ", node.outputs.size(), "; torch.split_with_sizes and ",
        "torch.tensor_split make the same number of pieces at every size", where(node.location)));
  });
  return messages;
}

std::vector<std::string> fixed_examples(const Graph& graph, const Hints& hints) {
  if (hints.empty()) return {};
  const std::unordered_set<std::string> used = symbols_of_results(graph);
  std::vector<std::string> messages;
  for_each_node(graph, [&](const Node& node) {
    const auto call = sized_call(node);
    if (!call || fixes_elements(*call)) return;
    if (const Dim* size = size_of_example(*call, hints, used))
      messages.push_back(
          fixed_message(node, *size, concat(size->str(), " == ", hints.at(size->str()))));
  });
  return messages;
}

}  // namespace onnx_native::aten
