// Tells which operators may return non-contiguous tensors.
#pragma once

#include <functional>

#include "aten/graph.h"

namespace onnx_native::aten {

// Returns true if results of a call may be non-contiguous, which control flow reads from its
// bodies. Most operators keep the layout of their arguments; `is_scattered` tells if an argument
// may be non-contiguous.
bool may_scatter(const Node& node, const std::function<bool(const Value*)>& is_scattered);

}  // namespace onnx_native::aten
