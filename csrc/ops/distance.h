// Norms of differences, which distances and some losses are made of.
#pragma once

#include "ops/call.h"

namespace onnx_native::ops {

// (sum |x|^p)^(1/p) over one axis; p = 0 counts what is not zero, p = inf is the maximum.
Value p_norm(Builder& b, Value x, double p, int64_t axis, bool keepdim);
// p_norm of x1 - x2 + eps over the last axis.
Value pairwise_distance(Builder& b, Value x1, Value x2, double p, double eps, bool keepdim);
// x1 . x2 / (max(|x1|, eps) * max(|x2|, eps)) over one axis.
Value cosine_similarity(Builder& b, Value x1, Value x2, int64_t dim, double eps);

}  // namespace onnx_native::ops
