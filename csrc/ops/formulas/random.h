// Random numbers for other families.
#pragma once

#include <optional>

#include "onnx/builder.h"

namespace onnx_native::ops {

// The dtype in which ONNX Runtime draws numbers for a tensor of `dtype`.
DType drawn_dtype(DType dtype);
// RandomUniform or RandomNormal of this shape.
Value draw(Builder& b, std::string_view distribution, DType dtype, const Shape& shape);
// In [0, 1).
Value uniform(Builder& b, DType dtype, const Shape& shape);
struct Dropped {
  Value result;
  Value kept;  // bool, of x's shape
};
// Dropout as in training: elements are zeroed with probability p, the others grow by 1 / (1 - p).
Dropped dropped(Builder& b, Value x, const Number& p);

}  // namespace onnx_native::ops
