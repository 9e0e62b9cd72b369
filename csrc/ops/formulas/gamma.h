// The gamma function for float64 tensors.
#pragma once

#include "onnx/builder.h"

namespace onnx_native::ops {

// Returns log|gamma(x)|; digamma returns its derivative.
Value log_gamma(Builder& b, Value x);
Value digamma(Builder& b, Value x);

}  // namespace onnx_native::ops
