// Writes of branches and loops to their operands.
#pragma once

#include <utility>
#include <vector>

#include "aten/graph.h"

namespace onnx_native::aten {

// The effect of a call with subgraphs on its operands.
struct OperandWrites {
  std::vector<std::pair<Value*, Value*>> written;  // (operand, its new value)
};

// Returns true if the functional subgraph writes to its input i.
bool writes_to(const Graph& graph, size_t i);

// Turns the writes of the call's (functional) subgraphs to their inputs into results. Throws
// ExportError(unsupported) if the operator cannot have further results.
OperandWrites return_writes(Graph& graph, Node& node);

}  // namespace onnx_native::aten
