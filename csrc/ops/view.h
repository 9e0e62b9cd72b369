// What families that rearrange tensors share: sizes with a -1, axes, positions along an axis.
#pragma once

#include "ops/call.h"

namespace onnx_native::ops {

// The sizes of a view of `self`: a -1 becomes what the number of elements leaves for it.
Shape solve_sizes(Builder& b, Value self, Shape sizes);
// `self` broadcast to `sizes`, where -1 keeps a size.
Value expand_to(Builder& b, Value self, Shape sizes);
// The shapes of all tensors broadcast together, and the tensors with that shape.
Shape broadcast_shape(const Values& tensors);
Values broadcast_all(Builder& b, const Values& tensors);
// The tensors cast to their common dtype.
Values promote_all(Builder& b, const Values& tensors);

// `self` with at least `rank` dimensions, as torch.atleast_1d, 2d and 3d make them.
Value at_least(Builder& b, Value self, int64_t rank);
// `self`, or a tensor of one element with one dimension when it is 0-d.
Value at_least_1d(Builder& b, Value self);

// The permutation by which each `source` axis comes to the `destination` at its place.
Ints moving(int64_t rank, const Ints& sources, const Ints& destinations);
Ints inverse(const Ints& permutation);
Value move_axis(Builder& b, Value self, int64_t source, int64_t destination);

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

// The places in a contiguous tensor's memory that an as_strided view shows, as an int64 tensor of
// shape `size`.
Value strided_positions(Builder& b, const Shape& size, const Shape& stride, const Dim& offset);
// Refuses a tensor that is known to be a view, whose memory is not laid out as its elements are.
void check_owns_memory(const Call& call);

// Swaps elements of one axis end to end.
Value reverse(Builder& b, Value self, const Ints& axes);
// Repeats the whole tensor along each axis; `repeats` has at least as many entries as dimensions.
Value repeat(Builder& b, Value self, const Shape& repeats);

}  // namespace onnx_native::ops
