// Reductions with ATen's semantics: over some axes or all, including of 0-d tensors.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "onnx/builder.h"

namespace onnx_native::ops {

// Returns the axes non-negative and in ascending order. No list or an empty one selects all axes; a
// 0-d tensor has none.
Ints axes_of(Value x, const std::optional<Ints>& dim);
// b.reduce over axes from axes_of. Widens bool and narrow integers, which the ONNX operator does
// not support, to int32 and casts the result back.
Value reduced(Builder& b, std::string_view onnx_op, Value x, const Ints& axes, bool keepdim);
// Returns the sum over the axes in x's dtype.
Value sum_over(Builder& b, Value x, const Ints& axes, bool keepdim);
// Returns the mean of a floating-point tensor; NaN for no elements.
Value mean_over(Builder& b, Value x, const Ints& axes, bool keepdim);
// Returns the largest (or smallest) elements and propagates NaN.
Value extreme_over(Builder& b, std::string_view onnx_op, Value x, const Ints& axes, bool keepdim);
// Returns the sizes of axes [begin, end); negative bounds count from the end. Throws
// ExportError(unsupported) if a bound is out of range or the rank is unknown.
Shape part_of(const Shape& shape, int64_t begin, int64_t end = INT64_MAX);
Shape part_of(Value x, int64_t begin, int64_t end = INT64_MAX);
// Returns the product of the sizes of the axes.
Dim count_over(Value x, const Ints& axes);
// Returns the count as a tensor of x's dtype.
Value count_like(Builder& b, Value x, const Dim& count);
// Casts the operand of a sum or product to `dtype`; without one, integers and bools become int64.
Value for_sum(Builder& b, Value x, std::optional<DType> dtype);

}  // namespace onnx_native::ops
