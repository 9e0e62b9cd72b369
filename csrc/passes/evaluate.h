// Constant evaluation of small ONNX nodes, with ONNX semantics.
#pragma once

#include <optional>
#include <span>

#include "base/tensor_data.h"
#include "onnx/graph.h"

namespace onnx_native::passes {

// Returns the node's first output, given its inputs' elements (nullptr: an absent input). Returns
// nullopt if the result would have more than `limit` elements, if a dtype is not a float, a signed
// integer, u8 or bool, or if the operator is not one of the elementwise, shape and indexing
// operators that compute shapes and masks.
std::optional<TensorData> evaluate(const onnx::Node& node,
                                   std::span<const TensorData* const> inputs, int64_t limit);

}  // namespace onnx_native::passes
