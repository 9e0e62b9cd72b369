// Norms of differences, which distances and some losses are made of.
#pragma once

#include "ops/engine/call.h"

namespace onnx_native::ops {

// (sum |x|^p)^(1/p) over one axis; p = 0 counts what is not zero, p = inf is the maximum.
Value p_norm(Builder& b, Value x, const Number& p, int64_t axis, bool keepdim);
// The same over several axes (none: each element) for an order that the model computes.
Value norm_of_computed_order(Builder& b, Value x, const Number& p, const Ints& axes, bool keepdim);
// p_norm of x1 - x2 + eps over the last axis.
Value pairwise_distance(Builder& b, Value x1, Value x2, const Number& p, const Number& eps,
                        bool keepdim);
// x1 . x2 / (max(|x1|, eps) * max(|x2|, eps)) over one axis.
Value cosine_similarity(Builder& b, Value x1, Value x2, int64_t dim, const Number& eps);

}  // namespace onnx_native::ops
