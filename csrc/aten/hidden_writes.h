// Operators that write to arguments without declaring it in their schemas.
#pragma once

#include "aten/graph.h"

namespace onnx_native::aten {

// Rewrites them into operators whose schemas declare the writes: batch_norm and instance_norm with
// batch statistics, which update the running statistics.
void reveal_hidden_writes(Graph& graph);

}  // namespace onnx_native::aten
