// Sorting, for several families.
#pragma once

#include <algorithm>
#include <array>

#include "ops/engine/call.h"

namespace onnx_native::ops {

// Values and their int64 indices.
using Pair = std::array<Value, 2>;

// Returns the k largest or smallest along a dimension, in order. A 0-d tensor counts as one
// element. The elements must not be NaN: ONNX Runtime's order is then undefined.
Pair top_k(Builder& b, Value self, const Dim& k, int64_t dim, bool largest);
Pair sort(Builder& b, Value self, int64_t dim, bool descending);
// Like top_k, for elements that may be NaN, which is greater than all others.
Pair top_k_with_nan(Builder& b, Value self, const Dim& k, int64_t dim, bool largest);
// Returns true where any flag along the axis is set; the axis stays with size 1.
Value any_along(Builder& b, Value flags, int64_t axis);

}  // namespace onnx_native::ops
