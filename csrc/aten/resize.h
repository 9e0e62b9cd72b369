// In-place resizing.
#pragma once

#include "aten/graph.h"

namespace onnx_native::aten {

// Turns resize_ and resize_as_ into as_strided_: another shape with at most as many elements is a
// view of contiguous memory. `is_contiguous` describes the tensor. Throws ExportError(unsupported)
// if the tensor grows, may be non-contiguous, or has unknown sizes.
void resize_as_view(Graph& graph, Node& node, bool is_contiguous);

}  // namespace onnx_native::aten
