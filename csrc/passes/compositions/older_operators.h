// Newer operators, composed from older ones.
#pragma once

#include <cstdint>

#include "onnx/builder.h"
#include "onnx/graph.h"
#include "passes/compositions/compose.h"

namespace onnx_native::passes {

// Returns how to compose a node that the opset does not have, or not for these dtypes and
// attributes; nullptr if it has it, or if there is no composition.
Composer composition(const onnx::Node& node, int64_t opset);

// Returns 1-D integers one after the other; a constant if all of them are.
Value joined(Builder& b, const Values& sizes);

// Returns true if a Reshape depends on allowzero: without it, a 0 in the new shape copies the size
// of the input's axis at that place.
bool needs_allowzero(const onnx::Node& node);

}  // namespace onnx_native::passes
