// Reductions as ATen defines them: over some axes or all, of 0-d tensors too.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "onnx/builder.h"

namespace onnx_native::ops {

// The axes, none given or an empty list meaning all; of a 0-d tensor, none. Non-negative.
Ints axes_of(Value x, const std::optional<Ints>& dim);
// b.reduce for axes from axes_of. Dtypes that the operator does not take are widened and cast back.
Value reduced(Builder& b, std::string_view onnx_op, Value x, const Ints& axes, bool keepdim);
// Sum over the axes; the dtype stays.
Value sum_over(Builder& b, Value x, const Ints& axes, bool keepdim);
// Mean of floats; of no elements, NaN.
Value mean_over(Builder& b, Value x, const Ints& axes, bool keepdim);
// Largest (or smallest) elements; NaN wins.
Value extreme_over(Builder& b, std::string_view onnx_op, Value x, const Ints& axes, bool keepdim);
// The sizes of axes [begin, end), which count from the back where negative. Throws
// ExportError(unsupported) when there are not as many.
Shape part_of(const Shape& shape, int64_t begin, int64_t end = INT64_MAX);
Shape part_of(Value x, int64_t begin, int64_t end = INT64_MAX);
// How many elements the axes hold together.
Dim count_over(Value x, const Ints& axes);
// The count as a tensor of x's dtype.
Value count_like(Builder& b, Value x, const Dim& count);

}  // namespace onnx_native::ops
