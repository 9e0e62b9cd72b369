// ONNX operators composed from others. In float64: ONNX Runtime's CPU provider has no accurate
// kernel, and float32 would lose digits. For integers: its kernel is not exact. The Builder looks
// compositions up by operator.
#pragma once

#include "onnx/builder.h"

namespace onnx_native::ops {

Compositions compositions();

}  // namespace onnx_native::ops
