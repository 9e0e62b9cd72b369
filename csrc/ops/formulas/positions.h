// Positions along axes and in memory, as integers that the model computes.
#pragma once

#include <cstdint>
#include <limits>

#include "ops/engine/call.h"

namespace onnx_native::ops {

// The end of a slice that extends to the end of its axis.
inline constexpr int64_t kToEnd = std::numeric_limits<int64_t>::max();

// Returns start, start + step, ... as a 1-d int64 tensor of `count` elements.
Value positions(Builder& b, const Dim& start, const Dim& count, const Dim& step = 1);
// Returns 0, 1, ... along one axis of a tensor of `rank` dimensions; the other sizes are 1.
Value positions_along(Builder& b, const Dim& count, int64_t axis, int64_t rank);
// from_start turns an index into a non-negative one: a negative index counts from the end.
// clamp_bound turns the bound of a Python slice into a position in [0, size].
Dim from_start(const Dim& index, const Dim& size);
Dim clamp_bound(Builder& b, const Dim& bound, const Dim& size);
// A diagonal of a [rows, columns] matrix in row-major order: the position of its first element, its
// number of elements, and the step between them.
struct Diagonal {
  Dim start, count, step;
  Diagonal(const Dim& rows, const Dim& columns, int64_t offset);
};
// Throws unless an as_strided view of a contiguous tensor has a stride for each size and reads only
// elements of it, as far as the numbers are known.
void check_strides(Builder& b, Value self, const Shape& size, const Shape& stride,
                   const Dim& offset);
// Returns the memory positions that an as_strided view of a contiguous tensor reads, as an int64
// tensor of shape `size`.
Value strided_positions(Builder& b, const Shape& size, const Shape& stride, const Dim& offset);
// Throws if argument 0 is known to be a view, because its memory layout is unknown.
void check_owns_memory(const Call& call);

}  // namespace onnx_native::ops
