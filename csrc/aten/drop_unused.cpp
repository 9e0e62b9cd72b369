#include "aten/drop_unused.h"

#include <algorithm>
#include <unordered_set>

#include "aten/visit.h"

namespace onnx_native::aten {

void drop_unused(Graph& graph) {
  std::unordered_set<const Node*> used;
  const auto use = [&](const Value* value) {
    if (value->producer) used.insert(value->producer);
  };
  for (Argument& output : graph.outputs) for_each_value(output, use);
  for (const Mutation& mutation : graph.mutations) use(mutation.value);
  std::vector<Node*> kept;
  for (size_t i = graph.nodes.size(); i-- > 0;) {
    Node* node = graph.nodes[i];
    const bool pure = node->schema || node->op.starts_with("python::");
    if (pure && !used.contains(node)) continue;
    for (Argument& argument : node->arguments) for_each_value(argument, use);
    kept.push_back(node);
  }
  std::reverse(kept.begin(), kept.end());
  graph.nodes = std::move(kept);
}

}  // namespace onnx_native::aten
