#include "aten/written_operands.h"

#include <algorithm>

#include "aten/bodies.h"
#include "aten/fault.h"

namespace onnx_native::aten {
namespace {

// Returns the final value of the input; nullptr if it is not written to.
Value* written_value(const Graph& graph, const Value* input) {
  const auto at = std::ranges::find(graph.mutations, input->name, &Mutation::target);
  return at == graph.mutations.end() ? nullptr : at->value;
}

// Returns the tensor that a subgraph writes to.
Value* written_operand(const Node& node, const Argument& operand) {
  if (Value* value = operand.as_value()) return value;
  fail_unsupported(node, "a branch or loop body writes to an input that is not a tensor");
}

void insert_output(Graph& graph, Node& node, size_t at, Value* operand) {
  graph.add_output(&node, operand->name, operand->type);
  std::rotate(node.outputs.begin() + static_cast<std::ptrdiff_t>(at), node.outputs.end() - 1,
              node.outputs.end());
  for (size_t i = at; i < node.outputs.size(); ++i) node.outputs[i]->index = static_cast<int>(i);
}

OperandWrites of_branches(Graph& graph, Node& node) {
  OperandWrites result;
  Graph* const branches[] = {&body(node, 1), &body(node, 2)};
  const Argument::List& given = operands(node, 3);
  for (size_t k = 0; k < given.size(); ++k) {
    if (!written_value(*branches[0], branches[0]->inputs[k]) &&
        !written_value(*branches[1], branches[1]->inputs[k])) {
      continue;
    }
    Value* operand = written_operand(node, given[k]);
    for (Graph* branch : branches) {
      Value* written = written_value(*branch, branch->inputs[k]);
      branch->outputs.emplace_back(written ? written : branch->inputs[k]);
    }
    insert_output(graph, node, node.outputs.size(), operand);
    result.written.emplace_back(operand, node.outputs.back());
  }
  for (Graph* branch : branches) branch->mutations.clear();
  return result;
}

// A captured tensor that the body writes to becomes a state.
OperandWrites of_loop(Graph& graph, Node& node) {
  OperandWrites result;
  Graph& steps = body(node, kBody);
  Argument::List& states = operands(node, kStates);
  Argument::List& captures = operands(node, kCaptures);
  for (size_t k = 0; k < captures.size();) {
    const size_t input = kBeforeStates + states.size() + k;
    Value* written = written_value(steps, steps.inputs[input]);
    if (!written) {
      ++k;
      continue;
    }
    const size_t state = states.size();
    Value* operand = written_operand(node, captures[k]);
    captures.erase(captures.begin() + static_cast<std::ptrdiff_t>(k));
    states.emplace_back(operand);
    const auto begin = steps.inputs.begin() + kBeforeStates;
    std::rotate(begin + static_cast<std::ptrdiff_t>(state),
                begin + static_cast<std::ptrdiff_t>(state + k),
                begin + static_cast<std::ptrdiff_t>(state + k + 1));
    steps.outputs.insert(steps.outputs.begin() + static_cast<std::ptrdiff_t>(kBeforeStates + state),
                         written);
    insert_output(graph, node, state, operand);
    result.written.emplace_back(operand, node.outputs[state]);
  }
  steps.mutations.clear();
  return result;
}

}  // namespace

bool writes_to(const Graph& graph, size_t i) { return written_value(graph, graph.inputs[i]); }

OperandWrites return_writes(Graph& graph, Node& node) {
  if (is_cond(node)) return of_branches(graph, node);
  if (is_loop(node)) return of_loop(graph, node);
  for (const Argument& argument : node.arguments) {
    const auto* sub_graph = argument.get<std::shared_ptr<Graph>>();
    if (sub_graph && !(*sub_graph)->mutations.empty()) {
      fail_unsupported(node,
                       concat("a branch or loop body writes to its input %",
                              (*sub_graph)->mutations[0].target, "; write to a clone() instead"));
    }
  }
  return {};
}

}  // namespace onnx_native::aten
