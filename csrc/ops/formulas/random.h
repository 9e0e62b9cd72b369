// Random numbers for other families.
#pragma once

#include <optional>

#include "onnx/builder.h"

namespace onnx_native::ops {

// Returns the dtype in which ONNX Runtime samples for a tensor of `dtype`.
DType drawn_dtype(DType dtype);
// Samples from RandomUniform or RandomNormal with this shape.
Value draw(Builder& b, std::string_view distribution, DType dtype, const Shape& shape);
// Samples from [0, 1).
Value uniform(Builder& b, DType dtype, const Shape& shape);
struct Dropped {
  Value result;
  Value kept;  // bool, of x's shape
};
// Training-mode dropout: zeroes elements with probability p and scales the others by 1 / (1 - p).
Dropped dropped(Builder& b, Value x, const Number& p);

}  // namespace onnx_native::ops
