#include "onnx/importers.h"

#include <algorithm>
#include <set>
#include <string_view>

#include "base/error.h"

namespace onnx_native::onnx {
namespace {

struct Untaken {
  Target target;
  std::string_view version;
  std::string_view op_type;
};

constexpr Untaken kUntaken[] = {
#include "onnx/importers.inc"
};

}  // namespace

std::vector<std::string> untaken_operators(Model& model) {
  std::vector<std::string> result;
  std::set<std::string_view> seen;
  const auto visit = [&](Graph& graph) {
    for (const Node* node : graph.nodes) {
      if (!node->domain.empty()) continue;
      const auto* row = std::ranges::find_if(kUntaken, [&](const Untaken& each) {
        return each.target == model.target && each.op_type == node->op_type;
      });
      if (row == std::ranges::end(kUntaken) || !seen.insert(row->op_type).second) continue;
      result.push_back(concat(name(model.target), " ", row->version, " does not take ",
                              node->op_type, where(node->location)));
    }
  };
  if (std::ranges::find(kUntaken, model.target, &Untaken::target) == std::ranges::end(kUntaken))
    return result;
  for_each_graph(*model.graph, visit);
  for (Function& function : model.functions) for_each_graph(*function.body, visit);
  return result;
}

}  // namespace onnx_native::onnx
