// The reductions of losses.
#pragma once

#include "onnx/builder.h"

namespace onnx_native::ops {

// The values of ATen's `reduction` argument.
enum Reduction : int64_t { kNone, kMean, kSum };

// Returns the losses, their mean or their sum.
Value reduced(Builder& b, Value loss, int64_t reduction);

}  // namespace onnx_native::ops
