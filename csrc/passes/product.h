// Products with constant weights, whose results have channels: Conv, ConvTranspose, Gemm, MatMul.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "onnx/graph.h"

namespace onnx_native::passes {

// A product with a constant weight, both without other uses, and with a constant bias or none.
struct Product {
  onnx::Value* result;
  onnx::Node* weight_user;  // the product, or the Transpose of its weight
  size_t weight_index;      // the weight among the inputs of its user
  size_t weight_axis;       // the weight's axis of channels
  onnx::Node* bias_user;    // the product, or the Add after a MatMul; nullptr: a plain MatMul
  size_t bias_index = 2;
  std::optional<int64_t> axis;  // the result's axis of channels

  onnx::Value* weight() const { return weight_user->inputs[weight_index]; }
  onnx::Value* bias() const { return bias_user ? bias_user->input(bias_index) : nullptr; }
  int64_t channels() const { return weight()->constant->shape[weight_axis]; }
};

// Counts the uses of values. A Shape does not count: it stays right if the elements change.
onnx::UseCounts count_uses_of_elements(onnx::Graph& graph);

// Finds the product that a value is, transposed or reshaped. `result` and `axis` of the answer
// describe the value; a Reshape has no axis of channels. Only float32 and float64 have products.
std::optional<Product> find_product(onnx::Value* value, const onnx::UseCounts& uses);

// Returns true for a constant floating tensor whose elements can be read during the export.
bool is_readable(const onnx::Value* value, DType dtype);

}  // namespace onnx_native::passes
