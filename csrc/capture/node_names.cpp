#include "capture/node_names.h"

#include <unordered_set>

#include "capture/recording.h"

namespace onnx_native::capture {
namespace {

bool is_name_in_python(const std::string& name) {
  static const std::unordered_set<std::string_view> kNames{
      "abs",  "all",  "any", "bin",   "bool", "complex", "filter", "float", "hash",
      "hex",  "id",   "int", "iter",  "len",  "list",    "map",    "max",   "min",
      "next", "oct",  "pow", "range", "repr", "round",   "set",    "slice", "sorted",
      "sum",  "type", "zip", "not",   "and",  "or"};
  return kNames.contains(name);
}

// Returns an unused name, which is then used.
std::string take_name(aten::Graph& graph, const std::string& name) {
  const std::string unused = graph.add_value(name, {})->name;
  return is_name_in_python(unused) ? take_name(graph, name) : unused;
}

}  // namespace

std::string plain_name(std::string_view op) {
  op.remove_prefix(op.rfind(':') + 1);
  return std::string(op.substr(0, op.find('.')));
}

void name_nodes(aten::Graph& graph) {
  for (aten::Node* node : graph.nodes) {
    if (!node->location) continue;
    Location location = *node->location;
    if (!location.node.empty()) continue;
    const bool has_one =
        node->outputs.size() == 1 && !node->outputs[0]->name.starts_with("getitem");
    location.node = has_one ? node->outputs[0]->name : take_name(graph, plain_name(node->op));
    node->location = graph.add_location(std::move(location));
  }
}

void Recording::avoid_name(const std::string& name) {
  if (is_name_in_python(name) && avoided_names_.insert(name).second)
    frame_->graph().add_value(name, {});
}

}  // namespace onnx_native::capture
