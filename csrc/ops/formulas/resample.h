// Resampling along one axis by an explicit matrix or by positions, matching eager.
#pragma once

#include <optional>

#include "ops/engine/call.h"

namespace onnx_native::ops {

struct Resampling {
  Dim in, out;
  std::optional<double> scale;  // from the caller; coordinates use it instead of out / in
  bool align_corners = false;
};

enum class Filter { triangle, cubic, lanczos };

// Returns the position (1-d int64) that each output element copies; `exact` samples at pixel
// centers.
Value nearest_positions(Builder& b, const Resampling& r, bool exact);
// Returns weights (out, in) of linear or cubic (a = -0.75) interpolation.
Value interpolation_matrix(Builder& b, const Resampling& r, bool cubic, DType dtype);
// Returns weights (out, in) of a filter that widens as the input shrinks.
Value antialiasing_matrix(Builder& b, const Resampling& r, Filter filter, DType dtype);
// Applies a matrix (out, in) along an axis.
Value resample(Builder& b, Value x, Value matrix, int64_t axis);

}  // namespace onnx_native::ops
