// Random numbers for other families.
#pragma once

#include <optional>

#include "onnx/builder.h"

namespace onnx_native::ops {

// In [0, 1).
Value uniform(Builder& b, DType dtype, const Shape& shape);
struct Dropped {
  Value result;
  Value kept;  // bool, of x's shape
};
// Dropout as in training: elements are zeroed with probability p, the others grow by 1 / (1 - p).
Dropped dropped(Builder& b, Value x, const Number& p);

}  // namespace onnx_native::ops
