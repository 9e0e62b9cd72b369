// Random numbers for other families.
#pragma once

#include <optional>

#include "onnx/builder.h"

namespace onnx_native::ops {

// In [0, 1).
Value uniform(Builder& b, DType dtype, const Shape& shape);
// 1 with this probability (0-d, or of a shape that broadcasts), else 0.
Value bernoulli(Builder& b, Value probability, DType dtype, const Shape& shape);

struct Dropped {
  Value result;
  Value kept;  // bool, of x's shape
};
// Dropout as in training: elements are zeroed with probability p, the others grow by 1 / (1 - p).
Dropped dropped(Builder& b, Value x, double p);

}  // namespace onnx_native::ops
