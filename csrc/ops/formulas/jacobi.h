// Eigenvalues and singular values. As in linalg.h, matrices are float64 with leading batch axes.
#pragma once

#include "ops/engine/call.h"

namespace onnx_native::ops {

// S V^T of A = U S V^T, as W = A V, whose columns are those of U scaled by S. Columns are in
// descending order of S. All n are present; the last ones of a wide matrix are zero.
struct OrthogonalColumns {
  Value w;        // [*, m, n]
  Value v;        // [*, n, n]; nullptr unless requested
  Value squares;  // [*, n]: squares of the singular values
};
OrthogonalColumns orthogonal_columns(Builder& b, Value a, bool with_v);
// Returns the singular values in descending order, [*, min(m, n)].
Value singular_values(Builder& b, Value a);
struct Svd {
  Value u, s, v;
};
Svd svd(Builder& b, Value a, bool full_matrices);
// A = V diag(values) V^T of a symmetric matrix; values ascend.
struct Eigen {
  Value values;   // [*, n]
  Value vectors;  // nullptr unless requested
};
Eigen symmetric_eigen(Builder& b, Value a, bool with_vectors);

}  // namespace onnx_native::ops
