// Operators that write to arguments although their schemas do not say so.
#pragma once

#include "aten/graph.h"

namespace onnx_native::aten {

// Rewrites them into operators whose schemas do: batch_norm and instance_norm with the batch's own
// statistics, which update the running ones.
void reveal_hidden_writes(Graph& graph);

}  // namespace onnx_native::aten
