// Splits calls that make views of several tensors into one call per tensor.
#pragma once

#include "aten/graph.h"

namespace onnx_native::aten {

// Rewrites broadcast_tensors, meshgrid and atleast_1d (2d, 3d) of lists as one view per tensor, and
// an einsum that permutes one tensor as permute. Leaves calls on tensors of unknown shape
// unchanged.
void separate_views(Graph& graph);

}  // namespace onnx_native::aten
