// Tells operators apart by how they treat the axes of their operands.
#pragma once

#include <cstdint>

#include "onnx/graph.h"

namespace onnx_native::passes {

// Returns true for an operator each of whose elements comes from one element of each operand.
bool is_elementwise(const onnx::Node& node);
// Returns true for a norm over the last axis alone, of an operand of this rank.
bool normalizes_last_axis(const onnx::Node& node, int64_t rank);

}  // namespace onnx_native::passes
