// ONNX operators computed by others: in float64, where ONNX Runtime's CPU provider has no kernel
// and a detour over float32 would lose digits; of integers, where its kernel is not exact. The
// Builder asks for them.
#pragma once

#include "onnx/builder.h"

namespace onnx_native::ops {

Compositions compositions();

}  // namespace onnx_native::ops
