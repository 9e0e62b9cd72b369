// Resampling along one axis by an explicit matrix or by positions, as eager computes them.
#pragma once

#include <optional>

#include "ops/engine/call.h"

namespace onnx_native::ops {

struct Resampling {
  Dim in, out;
  std::optional<double> scale;  // of the caller; coordinates go by it instead of out / in
  bool align_corners = false;
};

enum class Filter { triangle, cubic, lanczos };

// The position (1-d int64) that each output element copies; `exact` looks from pixel centres.
Value nearest_positions(Builder& b, const Resampling& r, bool exact);
// Weights (out, in) of linear or cubic (a = -0.75) interpolation.
Value interpolation_matrix(Builder& b, const Resampling& r, bool cubic, DType dtype);
// Weights (out, in) of a filter that widens as the input shrinks.
Value antialiasing_matrix(Builder& b, const Resampling& r, Filter filter, DType dtype);
// Applies a matrix (out, in) along an axis.
Value resample(Builder& b, Value x, Value matrix, int64_t axis);

}  // namespace onnx_native::ops
