#include "aten/written_operands.h"

#include <algorithm>
#include <functional>

#include "aten/fault.h"
#include "aten/views.h"

namespace onnx_native::aten {
namespace {

// Positions of a loop's arguments, and the number of inputs and outputs of its body before the
// states.
constexpr size_t kBody = 2, kStates = 3, kCaptures = 4;
constexpr size_t kBeforeStates = 1;

Graph& body(const Node& node, size_t i) {
  return **node.arguments[i].get<std::shared_ptr<Graph>>();
}

// Returns true if argument i is a graph with so many inputs and at least so many outputs, which
// damaged files do not have.
bool has_body(const Node& node, size_t i, size_t inputs, size_t outputs) {
  return node.arguments[i].get<std::shared_ptr<Graph>>() && body(node, i).inputs.size() == inputs &&
         body(node, i).outputs.size() >= outputs;
}

// higher_order::cond(condition, graph, graph, [operands])
bool is_cond(const Node& node) {
  if (node.op != "higher_order::cond" || node.arguments.size() != 4) return false;
  const auto* given = node.arguments[3].get<Argument::List>();
  return given && has_body(node, 1, given->size(), node.outputs.size()) &&
         has_body(node, 2, given->size(), node.outputs.size());
}

// higher_order::for_loop(steps, condition, graph, [states], [captures])
bool is_loop(const Node& node) {
  if (node.op != "higher_order::for_loop" || node.arguments.size() != 5) return false;
  const auto* states = node.arguments[kStates].get<Argument::List>();
  const auto* captures = node.arguments[kCaptures].get<Argument::List>();
  if (!states || !captures || node.outputs.size() < states->size()) return false;
  const size_t carried = kBeforeStates + states->size();
  return has_body(node, kBody, carried + captures->size(), carried);
}

Argument::List& operands(Node& node, size_t i) {
  return std::get<Argument::List>(node.arguments[i].value);
}

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
  for (size_t k = 0; k < states.size(); ++k) {
    if (written_value(steps, steps.inputs[kBeforeStates + k]) && states[k].as_value())
      result.first_states.push_back(states[k].as_value());
  }
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

bool makes_a_step(const Node& loop) {
  const auto* steps = loop.arguments[0].get<int64_t>();
  const auto* condition = loop.arguments[1].get<bool>();
  return steps && *steps > 0 && condition && *condition;
}

// Calls visit(value) for each input of the graph that a value may be or may be a view of.
void for_each_root(const Value* value, const std::function<void(const Value*)>& visit) {
  while (value && value->producer) {
    const Node& node = *value->producer;
    if (!node.schema) {  // a branch or a loop
      for (const auto& [result, operand] : passed_through(node)) {
        if (result == value) for_each_root(operand, visit);
      }
      return;
    }
    if (node.arguments.empty()) return;
    const bool writes = node.schema->is_mutable();
    if (!writes && !may_share(*node.schema)) return;
    const bool to_out = writes && node.schema->arguments.back().is_out;
    value = (to_out ? node.arguments.back() : node.arguments[0]).as_value();
  }
  if (value) visit(value);
}

}  // namespace

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

std::vector<std::pair<Value*, Value*>> passed_through(const Node& node) {
  std::vector<std::pair<Value*, Value*>> result;
  const auto find = [&](const Graph& graph, size_t first_input, const Argument::List& given,
                        size_t output, Value* of) {
    for_each_root(graph.outputs[output].as_value(), [&](const Value* root) {
      const auto at = std::ranges::find(graph.inputs, root);
      const auto place = static_cast<size_t>(at - graph.inputs.begin());
      if (at == graph.inputs.end() || place < first_input) return;
      if (place - first_input < given.size() && given[place - first_input].as_value())
        result.emplace_back(of, given[place - first_input].as_value());
    });
  };
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    if (!node.outputs[i]->type.is_tensor()) continue;
    if (is_cond(node)) {
      const Argument::List& given = *node.arguments[3].get<Argument::List>();
      for (const size_t branch : {1, 2}) find(body(node, branch), 0, given, i, node.outputs[i]);
    } else if (is_loop(node)) {
      const Argument::List& states = *node.arguments[kStates].get<Argument::List>();
      const Argument::List& captures = *node.arguments[kCaptures].get<Argument::List>();
      if (i >= states.size()) break;  // stacked outputs are copies
      if (states[i].as_value() && !makes_a_step(node))
        result.emplace_back(node.outputs[i], states[i].as_value());
      find(body(node, kBody), kBeforeStates + states.size(), captures, kBeforeStates + i,
           node.outputs[i]);
    }
  }
  return result;
}

}  // namespace onnx_native::aten
