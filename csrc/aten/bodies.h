// The branches and loops of TorchScript programs: their operands and bodies.
#pragma once

#include <cstddef>

#include "aten/graph.h"

namespace onnx_native::aten {

// higher_order::cond(condition, graph, graph, [operands]): the bodies' inputs are the operands.
// Returns true for a call of this form, which calls in damaged files may not have.
bool is_cond(const Node& node);
// higher_order::for_loop(steps, condition, graph, [states], [captures]): the body's inputs are the
// step, the states and the captures; its outputs are the condition, the states and stacked results.
bool is_loop(const Node& node);

// Positions of a loop's arguments, and the number of inputs and outputs of its body before the
// states.
constexpr size_t kBody = 2, kStates = 3, kCaptures = 4;
constexpr size_t kBeforeStates = 1;

// Returns the subgraph that is argument i.
Graph& body(const Node& node, size_t i);
// Returns the list that is argument i.
const Argument::List& operands(const Node& node, size_t i);
Argument::List& operands(Node& node, size_t i);
// Returns true if the loop is known to run its body.
bool makes_a_step(const Node& loop);

}  // namespace onnx_native::aten
