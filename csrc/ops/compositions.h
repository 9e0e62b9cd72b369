// ONNX operators computed by others: in float64, where ONNX Runtime's CPU provider has no kernel
// and a detour over float32 would lose digits; of integers, where its kernel is not exact. The
// Builder asks for them.
#pragma once

#include "onnx/builder.h"

namespace onnx_native::ops {

const Compositions& compositions();
// Adds those of integers (exact_integers.cpp).
void add_exact_integers(Compositions& table);
// The products of the first 1, 2, ... elements of an axis, by a Scan (cumulative.cpp).
Value running_product(Builder& b, Value x, int64_t axis);

// Convolutions as matrix products over unfolded input (unfolded_conv.cpp).
Values unfolded_conv(Builder& b, const onnx::Node& node);
Values unfolded_conv_transpose(Builder& b, const onnx::Node& node);

}  // namespace onnx_native::ops
