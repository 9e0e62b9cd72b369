// Exact dtype and symbolic shape inference, one ONNX node at a time.
#pragma once

#include <cstdint>

#include "onnx/graph.h"

namespace onnx_native::onnx {

// Sets dtype, shape and `contents` (elements of small integer tensors, as expressions) of the
// node's outputs from its inputs and attributes. A size that the rules cannot tell becomes a fresh
// symbol; a rank that they cannot tell, no shape. Throws ExportError(internal) when the inputs do
// not fit the operator (dtypes differ, shapes cannot broadcast).
void infer(Node& node, int64_t opset);

// The shape that numpy-style broadcasting gives, by Dim::broadcast. Two constants that do not
// broadcast are an error.
Shape broadcast(const Shape& a, const Shape& b);

}  // namespace onnx_native::onnx
