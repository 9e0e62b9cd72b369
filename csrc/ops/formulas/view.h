// Rearranging tensors: sizes with a -1, broadcasting, axes.
#pragma once

#include "ops/engine/call.h"

namespace onnx_native::ops {

// A number from data that may turn out to be -1.
bool may_be_open(const Dim& size);
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

// Swaps elements of one axis end to end.
Value reverse(Builder& b, Value self, const Ints& axes);
// Repeats the whole tensor along each axis; `repeats` has at least as many entries as dimensions.
Value repeat(Builder& b, Value self, const Shape& repeats);

}  // namespace onnx_native::ops
