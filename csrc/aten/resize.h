// Resizing in place.
#pragma once

#include "aten/graph.h"

namespace onnx_native::aten {

// Turns resize_ and resize_as_ into as_strided_: fewer or as many elements in another shape are a
// view of contiguous memory. `is_contiguous` says so of the tensor. Throws
// ExportError(unsupported) when elements are added.
void resize_as_view(Graph& graph, Node& node, bool is_contiguous);

}  // namespace onnx_native::aten
