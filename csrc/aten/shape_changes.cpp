#include "aten/shape_changes.h"

#include <algorithm>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "aten/fault.h"
#include "aten/op_facts.h"
#include "aten/unwritable.h"
#include "aten/views.h"
#include "aten/visit.h"

namespace onnx_native::aten {
namespace {

bool is_its_argument(const Node& node) {
  return is_idle_dropout(node) || node.op == "aten::lift" ||
         (node.op == "aten::lift_fresh_copy" && node.arguments[0].as_value() &&
          node.arguments[0].as_value()->producer);
}

bool is_idle_native_dropout(const Node* node) {
  if (!node || node->op != "aten::native_dropout") return false;
  const auto* train = node->arguments[2].get<bool>();
  const auto* p = node->arguments[1].get<double>();
  return (train && !*train) || (p && *p == 0);
}

}  // namespace

void mark_false_aliases(Graph& graph) {
  if (std::ranges::none_of(graph.nodes, is_idle_native_dropout)) return;
  std::vector<Node*> nodes = std::move(graph.nodes);
  graph.nodes.clear();
  for (Node* node : nodes) {
    graph.nodes.push_back(node);
    if (!is_idle_native_dropout(node)) continue;
    graph.add_node(std::string(kUnwritable),
                   {node->outputs[0], std::string("the result of a native_dropout that is off, "
                                                  "which torch.export takes for its argument; "
                                                  "use torch.nn.functional.dropout")});
  }
}

void check_shape_changes(const Graph& graph) {
  std::unordered_map<const Value*, const Value*> first_name;          // by results of dropouts
  std::unordered_map<const Value*, std::vector<const Value*>> names;  // by the first name
  std::unordered_map<const Value*, const Node*> stale;
  const auto first = [&](const Value* value) {
    const auto at = first_name.find(value);
    return at == first_name.end() ? value : at->second;
  };
  for (const Node* node : graph.nodes) {
    for (const Argument& argument : node->arguments) {
      for_each_value(argument, [&](const Value* value) {
        const auto at = stale.find(value);
        if (at == stale.end()) return;
        fail_unsupported(*at->second, concat("in eager this changes the shape of %", value->name,
                                             ", which is used later, but the captured program "
                                             "keeps the old shape; use the out-of-place operator"));
      });
    }
    if (!node->schema || node->arguments.empty() || node->outputs.empty()) continue;
    const Value* given = node->arguments[0].as_value();
    if (!given) continue;
    const bool changes = node->schema->is_mutable() && changes_geometry(*node->schema);
    if (changes && is_idle_native_dropout(given->producer))
      fail_unsupported(*node,
                       "in eager the result of a native_dropout that is off is a copy, but the "
                       "captured program takes it for the argument; use the out-of-place operator");
    if (is_its_argument(*node)) {
      const Value* name = first(given);
      first_name[node->outputs[0]] = name;
      std::vector<const Value*>& all = names[name];
      if (all.empty()) all.push_back(name);
      all.push_back(node->outputs[0]);
    } else if (changes) {
      for (const Value* name : names[first(given)]) {
        if (name != given) stale.emplace(name, node);
      }
    }
  }
}

}  // namespace onnx_native::aten
