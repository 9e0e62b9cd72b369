#include "aten/shape_changes.h"

#include <unordered_map>
#include <vector>

#include "aten/fault.h"
#include "aten/op_facts.h"
#include "aten/views.h"
#include "aten/visit.h"

namespace onnx_native::aten {

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
    if (is_idle_dropout(*node)) {
      const Value* name = first(given);
      first_name[node->outputs[0]] = name;
      std::vector<const Value*>& all = names[name];
      if (all.empty()) all.push_back(name);
      all.push_back(node->outputs[0]);
    } else if (node->schema->is_mutable() && changes_geometry(*node->schema)) {
      for (const Value* name : names[first(given)]) {
        if (name != given) stale.emplace(name, node);
      }
    }
  }
}

}  // namespace onnx_native::aten
