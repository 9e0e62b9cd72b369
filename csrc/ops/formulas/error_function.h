// The error function and its complement for float64 tensors.
#pragma once

#include "onnx/builder.h"

namespace onnx_native::ops {

Value erf(Builder& b, Value x);
Value erfc(Builder& b, Value x);
// Returns e^(x^2) erfc(x) for x >= 0.
Value scaled_upper(Builder& b, Value x);
// Returns `below` where x is negative, else `above`.
Value reflected(Builder& b, Value x, Value below, Value above);

}  // namespace onnx_native::ops
