// ONNX operators computed by others, in float64: ONNX Runtime's CPU provider has no float64 kernel
// for them, and a detour over float32 would lose digits. The Builder asks for them.
#pragma once

#include "onnx/builder.h"

namespace onnx_native::ops {

const Compositions& compositions();

// Convolutions as matrix products over unfolded input (unfolded_conv.cpp).
Values unfolded_conv(Builder& b, const onnx::Node& node);
Values unfolded_conv_transpose(Builder& b, const onnx::Node& node);

}  // namespace onnx_native::ops
