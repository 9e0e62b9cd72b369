// Iteration over the sizes in the types of a graph's values.
#pragma once

#include <memory>

#include "aten/graph.h"

namespace onnx_native::aten {

// Calls `visit` with each size of a tensor's shape, or with an integer.
template <class Visit>
void for_each_size(const Type& type, const Visit& visit) {
  if (type.dim) visit(*type.dim);
  if (!type.shape) return;
  for (const Dim& size : *type.shape) visit(size);
}

// Calls `visit` with each size of the results of a call, and of the values in its bodies.
template <class Visit>
void for_each_size(const Node& node, const Visit& visit) {
  for (const Value* output : node.outputs) for_each_size(output->type, visit);
  for (const Argument& argument : node.arguments) {
    const auto* body = argument.get<std::shared_ptr<Graph>>();
    if (!body) continue;
    for (const Value* input : (*body)->inputs) for_each_size(input->type, visit);
    for (const Node* inner : (*body)->nodes) for_each_size(*inner, visit);
  }
}

}  // namespace onnx_native::aten
