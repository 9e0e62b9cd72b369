// Matrix products of tensors that may be empty.
#pragma once

#include "ops/engine/call.h"

namespace onnx_native::ops {

// Returns torch.matmul(x, y), also where sizes depend on data and may be 0. ONNX Runtime's MatMul
// fails there: it leaves rows of a product with a vector of length 0 uninitialized, and it does not
// broadcast a factor along an empty batch, for which it also takes the rows of a matrix times a
// vector.
Value matrix_product(Builder& b, Value x, Value y);

}  // namespace onnx_native::ops
