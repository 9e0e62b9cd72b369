#include "aten/hidden_writes.h"

#include <algorithm>

namespace onnx_native::aten {
namespace {

// Argument positions, shared by both schemas: input, weight, bias, running_mean, running_var,
// training or use_input_stats, momentum, eps, cudnn_enabled.
constexpr size_t kMean = kStatistics[0], kVariance = kStatistics[1];
constexpr size_t kByBatch = 5, kMomentum = 6, kEps = 7;

void reveal_batch_norm(Node& node) {
  node.op = "aten::_native_batch_norm_legit";
  node.schema = find_schema(node.op);
  node.arguments.resize(kEps + 1);
}

// Updates the running statistics with the batch mean of the statistics of each instance.
void reveal_instance_norm(Graph& graph, const Node& node) {
  const Argument& input = node.arguments[0];
  const Type& type = input.as_value()->type;
  if (!type.shape || type.shape->size() < 2) return;  // the lowering reports the error
  Argument::List spatial, all{int64_t{0}};
  for (size_t i = 2; i < type.shape->size(); ++i) spatial.emplace_back(static_cast<int64_t>(i));
  all.insert(all.end(), spatial.begin(), spatial.end());
  const auto call = [&](std::string op, std::vector<Argument> arguments, Type result) {
    Node* made = graph.add_node(std::move(op), std::move(arguments), node.location);
    return graph.add_output(made, "statistics", std::move(result));
  };
  const auto move = [&](const Argument& running, Value* observed) {
    const Type& statistics = running.as_value()->type;
    Value* converted = call("aten::to.dtype", {observed, statistics.dtype}, statistics);
    call("aten::lerp_.Scalar", {running, converted, node.arguments[kMomentum]}, statistics);
  };
  const Shape channels{(*type.shape)[1]};
  move(node.arguments[kMean],
       call("aten::mean.dim", {input, std::move(all)}, Type::tensor(type.dtype, channels)));
  Value* variances = call("aten::var.correction", {input, std::move(spatial), int64_t{1}},
                          Type::tensor(type.dtype, Shape{(*type.shape)[0], (*type.shape)[1]}));
  move(node.arguments[kVariance], call("aten::mean.dim", {variances, Argument::List{int64_t{0}}},
                                       Type::tensor(type.dtype, channels)));
}

}  // namespace

bool updates_statistics(const Node& node) {
  if (node.op != "aten::batch_norm" && node.op != "aten::native_batch_norm" &&
      node.op != "aten::instance_norm") {
    return false;
  }
  const auto* by_batch = node.arguments[kByBatch].get<bool>();
  return by_batch && *by_batch && node.arguments[kMean].as_value() &&
         node.arguments[kVariance].as_value() && node.arguments[kMomentum].get<double>();
}

void reveal_hidden_writes(Graph& graph) {
  if (std::ranges::none_of(graph.nodes, [](const Node* node) { return updates_statistics(*node); }))
    return;
  std::vector<Node*> nodes = std::move(graph.nodes);
  graph.nodes.clear();
  for (Node* node : nodes) {
    graph.nodes.push_back(node);
    if (!updates_statistics(*node)) continue;
    if (node->op == "aten::instance_norm") {
      reveal_instance_norm(graph, *node);
    } else {
      reveal_batch_norm(*node);
    }
  }
}

}  // namespace onnx_native::aten
