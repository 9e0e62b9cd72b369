// Norms of differences, for distances and some losses.
#pragma once

#include "ops/engine/call.h"

namespace onnx_native::ops {

// Returns (sum |x|^p)^(1/p) over one axis; p = 0 counts the nonzero elements, p = inf takes the
// maximum.
Value p_norm(Builder& b, Value x, const Number& p, int64_t axis, bool keepdim);
// Returns the same over several axes (elementwise if there are none), for an order that the model
// computes.
Value norm_of_computed_order(Builder& b, Value x, const Number& p, const Ints& axes, bool keepdim);
// Returns p_norm of x1 - x2 + eps over the last axis.
Value pairwise_distance(Builder& b, Value x1, Value x2, const Number& p, const Number& eps,
                        bool keepdim);
// Returns x1 . x2 / (max(|x1|, eps) * max(|x2|, eps)) over one axis.
Value cosine_similarity(Builder& b, Value x1, Value x2, int64_t dim, const Number& eps);

}  // namespace onnx_native::ops
