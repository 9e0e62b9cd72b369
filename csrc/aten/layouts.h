// Which operators return tensors that may not be contiguous.
#pragma once

#include <functional>

#include "aten/graph.h"

namespace onnx_native::aten {

// Results of a call may not be contiguous; most operators keep the layout of their arguments.
// `is_scattered` tells so of an argument.
bool may_scatter(const Node& node, const std::function<bool(const Value*)>& is_scattered);

}  // namespace onnx_native::aten
