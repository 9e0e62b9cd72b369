// Running results along an axis.
#pragma once

#include <functional>

#include "onnx/builder.h"

namespace onnx_native::ops {

using RunningStep = std::function<Values(const Values& state, Value element)>;

// Returns the states after each step along the axis, stacked along it. `step` computes the next
// state from the state and the next slice. An empty axis gives an empty result.
Values running(Builder& b, Value x, int64_t axis, const Values& initial, const RunningStep& step);
// Returns the products of the first 1, 2, ... elements of an axis.
Value running_product(Builder& b, Value x, int64_t axis);

}  // namespace onnx_native::ops
