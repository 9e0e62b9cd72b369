// The values of small constant expressions, as ONNX defines the operators.
#pragma once

#include <optional>
#include <span>

#include "base/tensor_data.h"
#include "onnx/graph.h"

namespace onnx_native::passes {

// The node's first output, given the elements of its inputs (nullptr: absent). nullopt for
// operators, dtypes and sizes that it does not know: the result would have more than `limit`
// elements, the dtype is not a float, a signed integer, u8 or bool, or the operator is not one of
// the elementwise, shape and indexing operators that computed shapes and masks are made of.
std::optional<TensorData> evaluate(const onnx::Node& node,
                                   std::span<const TensorData* const> inputs, int64_t limit);

}  // namespace onnx_native::passes
