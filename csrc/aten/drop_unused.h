// Removes the calls that a functional program does not need.
#pragma once

#include "aten/graph.h"

namespace onnx_native::aten {

// Drops the calls whose results nothing uses, except for those that may have effects.
void drop_unused(Graph& graph);

}  // namespace onnx_native::aten
