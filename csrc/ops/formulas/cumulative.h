// Running results along an axis.
#pragma once

#include <functional>

#include "onnx/builder.h"

namespace onnx_native::ops {

using RunningStep = std::function<Values(const Values& state, Value element)>;

// The states after each step along the axis, stacked along it: `step` makes the next state from the
// state and the next slice. An axis of no elements gives no elements.
Values running(Builder& b, Value x, int64_t axis, const Values& initial, const RunningStep& step);
// The products of the first 1, 2, ... elements of an axis.
Value running_product(Builder& b, Value x, int64_t axis);

}  // namespace onnx_native::ops
