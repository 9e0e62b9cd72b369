#include "passes/passes.h"
#include "passes/rewrite.h"

namespace onnx_native::passes {
namespace {

using onnx::Graph;
using onnx::Node;
using onnx::UseCounts;
using onnx::Value;

template <class Visit>
void for_each_body(const Node& node, const Visit& visit) {
  for (const onnx::Attribute& attribute : node.attributes) {
    if (const auto* body = std::get_if<std::shared_ptr<Graph>>(&attribute.value)) visit(**body);
  }
}

void release(Graph& graph, UseCounts& uses) {
  for (const Value* output : graph.outputs) --uses[output];
  for (const Node* node : graph.nodes) {
    for (const Value* input : node->inputs) {
      if (input) --uses[input];
    }
    for_each_body(*node, [&uses](Graph& body) { release(body, uses); });
  }
}

int64_t eliminate(Graph& graph, UseCounts& uses) {
  int64_t erased = 0;
  for (auto it = graph.nodes.end(); it != graph.nodes.begin();) {
    Node* node = *--it;
    bool used = node->outputs.empty();
    for (const Value* output : node->outputs) used |= output && uses[output] > 0;
    if (used) {
      for_each_body(*node, [&](Graph& body) { erased += eliminate(body, uses); });
      continue;
    }
    for (const Value* input : node->inputs) {
      if (input) --uses[input];
    }
    for_each_body(*node, [&uses](Graph& body) { release(body, uses); });
    ++it;
    graph.erase(node);
    ++erased;
  }
  const auto unused = [&uses](const Value& value) { return uses[&value] == 0; };
  return erased + static_cast<int64_t>(graph.erase_initializers(unused));
}

}  // namespace

int64_t eliminate_dead_code(Graph& graph) {
  UseCounts uses = onnx::count_uses(graph);
  return eliminate(graph, uses);
}

// Removes unused nodes and initializers. Keeps inputs, and nodes without outputs.
int64_t eliminate_dead_code(onnx::Model& model) {
  int64_t erased = eliminate_dead_code(*model.graph);
  for (onnx::Function& function : model.functions) erased += eliminate_dead_code(*function.body);
  return erased;
}

}  // namespace onnx_native::passes
