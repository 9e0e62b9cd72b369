// Dead code elimination for functional programs.
#pragma once

#include "aten/graph.h"

namespace onnx_native::aten {

// Drops calls whose results are unused, except for calls that may have side effects.
void drop_unused(Graph& graph);

}  // namespace onnx_native::aten
