// A tensor and a number, in the tensor's dtype.
#pragma once

#include "ops/engine/call.h"

namespace onnx_native::ops {

inline Value plus(Builder& b, Value x, double number) { return b.Add(x, b.like(x, number)); }
inline Value times(Builder& b, Value x, double number) { return b.Mul(x, b.like(x, number)); }

}  // namespace onnx_native::ops
