// Branches and loops that write to tensors they are given.
#pragma once

#include <utility>
#include <vector>

#include "aten/graph.h"

namespace onnx_native::aten {

// What a call with sub-graphs does to its operands.
struct OperandWrites {
  std::vector<std::pair<Value*, Value*>> written;  // operand, and the result that is its new value
  std::vector<Value*> first_states;                // a loop's first step writes to them
};

// Makes results of what the call's (functional) sub-graphs write to their inputs. Throws
// ExportError(unsupported) where the operator has no place for that.
OperandWrites return_writes(Graph& graph, Node& node);

// Results of a call that may be operands, or views of them, as they were given.
std::vector<std::pair<Value*, Value*>> passed_through(const Node& node);

}  // namespace onnx_native::aten
