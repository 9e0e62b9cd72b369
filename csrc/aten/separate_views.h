// Calls that make views of several tensors, as a call for each.
#pragma once

#include "aten/graph.h"

namespace onnx_native::aten {

// Rewrites broadcast_tensors, meshgrid and atleast_1d (2d, 3d) of lists as views of their tensors,
// and an einsum that permutes one tensor as permute. Calls on tensors of unknown shape stay.
void separate_views(Graph& graph);

}  // namespace onnx_native::aten
