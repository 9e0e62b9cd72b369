// Memory that the results and operands of branches and loops may share.
#pragma once

#include <unordered_map>
#include <utility>
#include <vector>

#include "aten/graph.h"

namespace onnx_native::aten {

// Lists the tensors of a call with bodies that may share memory, depending on data.
struct BodyAliases {
  using Positions = std::vector<std::pair<size_t, size_t>>;
  std::vector<std::pair<Value*, Value*>> passed;    // a result and an operand
  std::vector<std::pair<Value*, Value*>> together;  // two results
  std::vector<std::pair<Value*, Value*>> same;      // two results that are one tensor for certain
  Positions inputs;                                 // two inputs of the body, when it begins
  Positions entered;  // a state and an operand (counting states, then captures), in any iteration
};

// Finds them, before writes in the bodies are rewritten. Views and operands that a body passes
// through count; lists that hold copies do not.
class AliasFinder {
 public:
  // `entry` are the inputs of the call's graph that may share memory.
  BodyAliases find(const Node& call, const Graph& graph, const BodyAliases::Positions& entry);

 private:
  using Roots = std::vector<const Value*>;
  class Sharing;
  class LoopStates;

  // Returns the values, made by a call or inputs of their graph, that the value may be or may be a
  // view of.
  const Roots& roots(const Value* value);
  Roots roots_of_result(const Value* result);
  BodyAliases of_cond(const Node& cond, const Sharing& shares);
  BodyAliases of_loop(const Node& loop, const Sharing& shares);
  BodyAliases of(const Node& call, const Sharing& shares);

  std::unordered_map<const Value*, Roots> roots_;
  std::unordered_map<const Node*, BodyAliases> calls_;  // regardless of their graphs' inputs
};

}  // namespace onnx_native::aten
