// Writes of branches and loops to their operands.
#pragma once

#include <utility>
#include <vector>

#include "aten/graph.h"

namespace onnx_native::aten {

// The effect of a call with subgraphs on its operands.
struct OperandWrites {
  std::vector<std::pair<Value*, Value*>> written;  // (operand, its new value)
  std::vector<Value*> first_states;  // initial states that a loop's first iteration writes to
};

// Turns the writes of the call's (functional) subgraphs to their inputs into results. Throws
// ExportError(unsupported) if the operator cannot have further results.
OperandWrites return_writes(Graph& graph, Node& node);

// Returns pairs (result, operand) of a call if the result may be the operand or a view of it.
std::vector<std::pair<Value*, Value*>> passed_through(const Node& node);

}  // namespace onnx_native::aten
