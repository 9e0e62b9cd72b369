#include "api/adapters.h"

#include <algorithm>
#include <memory>
#include <set>
#include <utility>

#include "base/name_patterns.h"

namespace onnx_native {

bool is_adapter(const aten::Constant& constant, const std::vector<std::string>& patterns) {
  if (constant.kind != aten::ConstantKind::parameter || !is_floating(constant.data.dtype))
    return false;
  return std::ranges::any_of(patterns, [&constant](const std::string& pattern) {
    return matches_name(pattern, constant.value->name);
  });
}

std::vector<std::string> adapter_names(const aten::Graph& graph,
                                       const std::vector<std::string>& patterns) {
  if (patterns.empty()) return {};
  std::set<std::string> all;
  std::vector<std::string> names;
  for (const aten::Constant& constant : graph.constants) {
    if (constant.kind == aten::ConstantKind::parameter) all.insert(constant.value->name);
    if (is_adapter(constant, patterns)) names.push_back(constant.value->name);
  }
  check_patterns("adapters", patterns, all);
  return names;
}

void set_adapter_defaults(onnx::Model& model, const std::vector<std::string>& names) {
  const std::set<std::string> wanted(names.begin(), names.end());
  onnx::Graph& graph = *model.graph;
  std::vector<std::pair<onnx::Value*, TensorData>> defaults;
  int64_t most = 0;
  for (onnx::Value* input : graph.inputs) {
    if (!wanted.contains(input->name)) continue;
    TensorData zeros{.dtype = input->dtype, .shape = *constant_shape(input->known_shape())};
    most = std::max(most, zeros.nbytes());
    defaults.emplace_back(input, std::move(zeros));
  }
  const auto memory = std::make_shared<std::vector<std::byte>>(static_cast<size_t>(most));
  for (auto& [input, zeros] : defaults) {
    zeros.data = memory->data();
    zeros.owner = memory;
    // The graph keeps the elements; the input takes the place of the value that held them.
    input->constant = graph.add_initializer("", std::move(zeros))->constant;
    graph.initializers.back() = input;
  }
}

bool has_default(const onnx::Value& input) { return input.is_constant(); }

}  // namespace onnx_native
