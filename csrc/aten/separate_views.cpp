#include "aten/separate_views.h"

#include <algorithm>
#include <string>

#include "aten/strides.h"

namespace onnx_native::aten {
namespace {

bool are_known(const Node& node, const Argument::List& tensors) {
  const auto known = [](const Value* value) { return value && value->type.shape; };
  return tensors.size() == node.outputs.size() &&
         std::ranges::all_of(tensors,
                             [&](const Argument& item) { return known(item.as_value()); }) &&
         std::ranges::all_of(node.outputs, known);
}

Argument::List make_sizes(Graph& graph, const Shape& shape, const Location* location) {
  Argument::List sizes;
  for (const Dim& size : shape) sizes.push_back(make_size(graph, size, location));
  return sizes;
}

// Makes the output the result of a new call.
void make(Graph& graph, Value* output, std::string op, std::vector<Argument> arguments,
          const Location* location) {
  Node* node = graph.add_node(std::move(op), std::move(arguments), location);
  node->outputs.push_back(output);
  output->producer = node;
  output->index = 0;
}

void expand(Graph& graph, Value* output, Value* tensor, const Location* location) {
  make(graph, output, "aten::expand", {tensor, make_sizes(graph, *output->type.shape, location)},
       location);
}

bool separate_meshgrid(Graph& graph, const Node& node, const Argument::List& tensors) {
  const auto is_grid = [&](const Value* output) {
    return output->type.shape->size() == tensors.size();
  };
  if (!std::ranges::all_of(node.outputs, is_grid)) return false;  // a malformed program
  const std::string* indexing =
      node.arguments.size() > 1 ? node.arguments[1].get<std::string>() : nullptr;
  for (size_t i = 0; i < tensors.size(); ++i) {
    Value* tensor = tensors[i].as_value();
    const Shape& grid = *node.outputs[i]->type.shape;
    const bool swapped = indexing && *indexing == "xy" && i < 2 && tensors.size() > 1;
    const size_t axis = swapped ? 1 - i : i;
    Shape shape(grid.size(), Dim(1));
    shape[axis] = grid[axis];
    Node* line = graph.add_node("aten::view", {tensor, make_sizes(graph, shape, node.location)},
                                node.location);
    Value* aligned = graph.add_output(line, tensor->name, Type::tensor(tensor->type.dtype, shape));
    expand(graph, node.outputs[i], aligned, node.location);
  }
  return true;
}

// Rewrites "bij->jbi" of one tensor, with each label once.
bool separate_einsum(Graph& graph, const Node& node) {
  const auto* equation = node.arguments[0].get<std::string>();
  const auto* tensors = node.arguments[1].get<Argument::List>();
  if (!equation || !tensors || tensors->size() != 1 || !(*tensors)[0].as_value()) return false;
  std::string labels = *equation;
  std::erase(labels, ' ');
  const size_t arrow = labels.find("->");
  if (arrow == labels.npos) return false;
  const std::string output = labels.substr(arrow + 2);
  labels.resize(arrow);
  if (labels.size() != output.size()) return false;
  Argument::List order;
  for (size_t i = 0; i < output.size(); ++i) {
    const size_t at = labels.find(output[i]);
    if (output[i] == '.' || at == labels.npos || output.find(output[i]) != i) return false;
    order.emplace_back(static_cast<int64_t>(at));
  }
  make(graph, node.outputs[0], "aten::permute", {(*tensors)[0], std::move(order)}, node.location);
  return true;
}

bool separate(Graph& graph, const Node& node) {
  if (!node.schema) return false;
  const std::string& name = node.schema->name;
  if (name == "aten::einsum") return separate_einsum(graph, node);
  const bool atleast = name.starts_with("aten::atleast_") && node.schema->overload == "Sequence";
  const bool meshgrid = name == "aten::meshgrid";
  if (!atleast && !meshgrid && name != "aten::broadcast_tensors") return false;
  const auto* tensors = node.arguments[0].get<Argument::List>();
  if (!tensors || !are_known(node, *tensors)) return false;
  if (meshgrid) return separate_meshgrid(graph, node, *tensors);
  for (size_t i = 0; i < tensors->size(); ++i) {
    const Type& type = (*tensors)[i].as_value()->type;
    if (name == "aten::broadcast_tensors" && *type.shape == *node.outputs[i]->type.shape &&
        type.dtype != DType::undefined) {
      // The output is the tensor itself.
      make(graph, node.outputs[i], "aten::to.dtype", {(*tensors)[i], type.dtype}, node.location);
    } else if (atleast) {
      make(graph, node.outputs[i], name, {(*tensors)[i]}, node.location);
    } else {
      expand(graph, node.outputs[i], (*tensors)[i].as_value(), node.location);
    }
  }
  return true;
}

}  // namespace

void separate_views(Graph& graph) {
  std::vector<Node*> nodes = std::move(graph.nodes);
  graph.nodes.clear();
  for (Node* node : nodes)
    if (!separate(graph, *node)) graph.nodes.push_back(node);
}

}  // namespace onnx_native::aten
