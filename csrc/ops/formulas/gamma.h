// The gamma function, of float64 tensors.
#pragma once

#include "onnx/builder.h"

namespace onnx_native::ops {

// log(gamma(x)) and its derivative.
Value log_gamma(Builder& b, Value x);
Value digamma(Builder& b, Value x);

}  // namespace onnx_native::ops
