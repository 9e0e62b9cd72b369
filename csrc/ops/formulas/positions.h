// Positions along axes and in memory, as integers that a model computes.
#pragma once

#include <cstdint>
#include <limits>

#include "ops/engine/call.h"

namespace onnx_native::ops {

// The end of a slice that goes to the end of its axis.
inline constexpr int64_t kToEnd = std::numeric_limits<int64_t>::max();

// start, start + step, ...: `count` int64 numbers, 1-d.
Value positions(Builder& b, const Dim& start, const Dim& count, const Dim& step = 1);
// The same, lying along one axis of a tensor of `rank` dimensions (sizes of the others are 1).
Value positions_along(Builder& b, const Dim& count, int64_t axis, int64_t rank);
// A bound of a Python slice as a position in [0, size].
// An index into an axis, counted from its start: a negative one counts from the end.
Dim from_start(const Dim& index, const Dim& size);
Dim clamp_bound(Builder& b, const Dim& bound, const Dim& size);
// Where a diagonal of a [rows, columns] matrix starts when its elements are numbered in row-major
// order, how many elements it has, and the step from one to the next.
struct Diagonal {
  Dim start, count, step;
  Diagonal(const Dim& rows, const Dim& columns, int64_t offset);
};
// An as_strided view has a stride for each size.
void check_strides(Builder& b, const Shape& size, const Shape& stride);
// The places in a contiguous tensor's memory that an as_strided view shows, as an int64 tensor of
// shape `size`.
Value strided_positions(Builder& b, const Shape& size, const Shape& stride, const Dim& offset);
// Refuses a tensor that is known to be a view, whose memory is not laid out as its elements are.
void check_owns_memory(const Call& call);

}  // namespace onnx_native::ops
