// Exact dtype and symbolic shape inference, one ONNX node at a time.
#pragma once

#include <cstdint>

#include "onnx/graph.h"

namespace onnx_native::onnx {

// Sets dtype, shape and `contents` (elements of small integer tensors, as expressions) of the
// node's outputs from its inputs and attributes. A size that the rules cannot determine becomes a
// fresh symbol; an unknown rank leaves the shape unset. Throws ExportError(internal) if the inputs
// are invalid for the operator (dtypes differ, shapes do not broadcast).
void infer(Node& node, int64_t opset);

// Returns the shape of NumPy broadcasting, by Dim::broadcast. Throws ExportError(internal) if two
// constant sizes do not broadcast.
Shape broadcast(const Shape& a, const Shape& b);

}  // namespace onnx_native::onnx
