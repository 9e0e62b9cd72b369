#include "aten/bodies.h"

#include <memory>

namespace onnx_native::aten {
namespace {

// Returns true if argument i is a graph with so many inputs and at least so many outputs.
bool has_body(const Node& node, size_t i, size_t inputs, size_t outputs) {
  return node.arguments[i].get<std::shared_ptr<Graph>>() && body(node, i).inputs.size() == inputs &&
         body(node, i).outputs.size() >= outputs;
}

}  // namespace

Graph& body(const Node& node, size_t i) {
  return **node.arguments[i].get<std::shared_ptr<Graph>>();
}

const Argument::List& operands(const Node& node, size_t i) {
  return *node.arguments[i].get<Argument::List>();
}

Argument::List& operands(Node& node, size_t i) {
  return std::get<Argument::List>(node.arguments[i].value);
}

bool is_cond(const Node& node) {
  if (node.op != "higher_order::cond" || node.arguments.size() != 4) return false;
  const auto* given = node.arguments[3].get<Argument::List>();
  return given && has_body(node, 1, given->size(), node.outputs.size()) &&
         has_body(node, 2, given->size(), node.outputs.size());
}

bool is_loop(const Node& node) {
  if (node.op != "higher_order::for_loop" || node.arguments.size() != 5) return false;
  const auto* states = node.arguments[kStates].get<Argument::List>();
  const auto* captures = node.arguments[kCaptures].get<Argument::List>();
  if (!states || !captures || node.outputs.size() < states->size()) return false;
  const size_t carried = kBeforeStates + states->size();
  return has_body(node, kBody, carried + captures->size(), carried);
}

bool makes_a_step(const Node& loop) {
  const auto* steps = loop.arguments[0].get<int64_t>();
  const auto* condition = loop.arguments[1].get<bool>();
  return steps && *steps > 0 && condition && *condition;
}

}  // namespace onnx_native::aten
