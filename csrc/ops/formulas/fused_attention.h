// ONNX's Attention (opset 23) where its numbers are eager's and ONNX Runtime's kernel is faster
// than the separate operators: benchmarks/fused_operators.py.
#pragma once

#include <optional>

#include "onnx/builder.h"

namespace onnx_native::ops {

// The arguments of aten::scaled_dot_product_attention without dropout.
struct AttentionCall {
  Value query, key, value;
  Value mask;  // nullptr: none
  bool is_causal;
  std::optional<Number> scale;
  bool enable_gqa;
};

// Returns nullptr if the operator does not fit.
Value fused_attention(Builder& b, const AttentionCall& call);

}  // namespace onnx_native::ops
