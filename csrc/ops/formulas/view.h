// Rearranges tensors: sizes with a -1, broadcasting, axes.
#pragma once

#include "ops/engine/call.h"

namespace onnx_native::ops {

// Returns true if the size comes from data and may be -1 at run time.
bool may_be_open(const Dim& size);
// Returns the sizes of a view of `self`: a -1 is computed from the number of elements.
Shape solve_sizes(Builder& b, Value self, Shape sizes);
// Broadcasts `self` to `sizes`, where -1 keeps a size.
Value expand_to(Builder& b, Value self, Shape sizes);
// The broadcast shape of all tensors, and the tensors expanded to it.
Shape broadcast_shape(const Values& tensors);
Values broadcast_all(Builder& b, const Values& tensors);
// Casts the tensors to their common dtype.
Values promote_all(Builder& b, const Values& tensors);

// Returns `self` with at least `rank` dimensions, like torch.atleast_1d, 2d and 3d.
Value at_least(Builder& b, Value self, int64_t rank);
// Returns `self`; a 0-d tensor becomes 1-d with one element.
Value at_least_1d(Builder& b, Value self);

// Returns the permutation that moves each axis in `sources` to the same entry of `destinations`.
Ints moving(int64_t rank, const Ints& sources, const Ints& destinations);
Ints inverse(const Ints& permutation);
Value move_axis(Builder& b, Value self, int64_t source, int64_t destination);

// Reverses the elements along each of the axes.
Value reverse(Builder& b, Value self, const Ints& axes);
// Tiles the tensor along each axis; `repeats` has at least as many entries as dimensions.
Value repeat(Builder& b, Value self, Shape repeats);

}  // namespace onnx_native::ops
