// The passes for products with quantized weights.
#pragma once

#include "onnx/graph.h"

namespace onnx_native::passes {

int64_t fuse_quantized_weights(onnx::Model& model);
int64_t dequantize_unpacked_weights(onnx::Model& model);
int64_t pack_weights(onnx::Model& model);
int64_t use_integer_products(onnx::Model& model);

}  // namespace onnx_native::passes
