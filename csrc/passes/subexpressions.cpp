#include <string>
#include <unordered_map>
#include <unordered_set>

#include "passes/key.h"
#include "passes/passes.h"
#include "passes/rewrite.h"
#include "passes/scopes.h"

namespace onnx_native::passes {
namespace {

using onnx::Graph;
using onnx::Node;
using onnx::Value;

using Initializers = std::unordered_map<std::string, Value*>;

std::unordered_map<const Value*, Value*> equal_initializers(const Graph& graph) {
  std::unordered_map<const Value*, Value*> equal;
  const std::unordered_set<const Value*> results(graph.outputs.begin(), graph.outputs.end());
  Initializers first;
  for (Value* value : graph.initializers) {
    Key key;
    if (value->named || results.contains(value) || !key.add_tensor(*value->constant)) continue;
    const auto [found, is_new] = first.emplace(key.take(), value);
    if (!is_new) equal.emplace(value, found->second);
  }
  return equal;
}

}  // namespace

// Merges nodes of one graph that have the same operator, inputs and attributes. The first one
// remains, in the innermost module that contains all of them. Skips random operators, nodes with
// sub-graphs and other domains. Also merges small equal initializers that the user did not name.
int64_t eliminate_common_subexpressions(onnx::Model& model) {
  int64_t changes = 0;
  onnx::for_each_graph(*model.graph, [&](Graph& graph) {
    const auto equal = equal_initializers(graph);
    if (equal.empty()) return;
    onnx::replace_uses(graph, equal);
    changes += static_cast<int64_t>(
        graph.erase_initializers([&equal](const Value& value) { return equal.contains(&value); }));
  });
  std::unordered_map<const Graph*, std::unordered_map<std::string, Node*>> seen;
  changes += sweep(model, [&](Rewrite& rewrite, Graph& graph, Node& node) {
    auto key = key_of(node);
    if (!key) return;
    const auto [found, is_new] = seen[&graph].emplace(std::move(*key), &node);
    if (is_new) return;
    Node& first = *found->second;
    first.location = common_location(model, first.location, node.location);
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      if (node.outputs[i]) rewrite.replace(node.outputs[i], first.outputs[i]);
    }
  });
  return changes;
}

}  // namespace onnx_native::passes
