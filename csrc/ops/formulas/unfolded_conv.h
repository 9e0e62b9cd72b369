// Convolutions as matrix products over unfolded input. Return no values for unsupported nodes.
#pragma once

#include "onnx/builder.h"

namespace onnx_native::ops {

Values unfolded_conv(Builder& b, const onnx::Node& node);
Values unfolded_conv_transpose(Builder& b, const onnx::Node& node);

}  // namespace onnx_native::ops
