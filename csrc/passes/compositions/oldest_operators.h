// Operators of opsets 10 and 11, composed from those of opset 9.
#pragma once

#include "passes/compositions/older_operators.h"

namespace onnx_native::passes {

// Like composition(), for opsets below 11.
Composer composition_before_11(const onnx::Node& node, int64_t opset);

// Returns true for a Resize that repeats elements, or keeps them.
bool has_whole_scales(const onnx::Node& node);

}  // namespace onnx_native::passes
