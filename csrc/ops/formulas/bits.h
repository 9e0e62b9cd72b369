// The bits of numbers as numbers of another dtype.
#pragma once

#include "ops/engine/call.h"

namespace onnx_native::ops {

// Reinterprets the memory of a real tensor as another real dtype, like Tensor.view(dtype). The last
// dimension grows or shrinks with the element size. NaN has the bits of PyTorch's NaN.
Value reinterpreted(Builder& b, Value self, DType dtype);

}  // namespace onnx_native::ops
