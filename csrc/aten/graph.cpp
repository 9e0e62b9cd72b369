#include "aten/graph.h"

#include <utility>

namespace onnx_native::aten {

Value* Graph::add_value(std::string_view name, Type type) {
  std::string unique(name);
  auto [at, inserted] = names_.try_emplace(unique, 0);
  while (!inserted) {
    unique = concat(name, "_", ++at->second);
    if (names_.try_emplace(unique, 0).second) break;
    at = names_.find(std::string(name));  // the insertion may have invalidated it
  }
  return &values_.emplace_back(Value{.name = std::move(unique), .type = std::move(type)});
}

Value* Graph::add_input(std::string_view name, Type type) {
  return inputs.emplace_back(add_value(name, std::move(type)));
}

Value* Graph::add_constant(std::string_view name, TensorData data, ConstantKind kind) {
  Shape shape(data.shape.begin(), data.shape.end());
  Value* value = add_value(name, Type::tensor(data.dtype, std::move(shape)));
  constants.push_back({.value = value, .data = std::move(data), .kind = kind});
  return value;
}

Node* Graph::add_node(std::string op, std::vector<Argument> arguments, const Location* location) {
  const Schema* schema = find_schema(op);
  if (schema) {
    for (size_t i = arguments.size(); i < schema->arguments.size(); ++i) {
      if (!schema->arguments[i].has_default) break;
      arguments.push_back(default_arguments(*schema)[i]);
    }
  }
  return nodes.emplace_back(&node_storage_.emplace_back(Node{.op = std::move(op),
                                                             .schema = schema,
                                                             .arguments = std::move(arguments),
                                                             .outputs = {},
                                                             .location = location}));
}

Value* Graph::add_output(Node* node, std::string_view name, Type type) {
  Value* value = add_value(name, std::move(type));
  value->producer = node;
  value->index = static_cast<int>(node->outputs.size());
  return node->outputs.emplace_back(value);
}

const Location* Graph::add_location(Location location) {
  return &locations_.emplace_back(std::move(location));
}

}  // namespace onnx_native::aten
