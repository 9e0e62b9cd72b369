// Eigenvalues and singular values. As in linalg.h, matrices are float64 and have a batch in front.
#pragma once

#include "ops/engine/call.h"

namespace onnx_native::ops {

// S V^T of A = U S V^T, as W = A V whose columns are orthogonal: U's, scaled by S. In descending
// order, all n of them, where the last ones are zeros of a wide matrix.
struct OrthogonalColumns {
  Value w;        // [*, m, n]
  Value v;        // [*, n, n]; nullptr unless asked for
  Value squares;  // [*, n]: of the singular values
};
OrthogonalColumns orthogonal_columns(Builder& b, Value a, bool with_v);
// Descending, [*, min(m, n)].
Value singular_values(Builder& b, Value a);
struct Svd {
  Value u, s, v;
};
Svd svd(Builder& b, Value a, bool full_matrices);
// A = V diag(values) V^T of a symmetric matrix, values ascending.
struct Eigen {
  Value values;   // [*, n]
  Value vectors;  // nullptr unless asked for
};
Eigen symmetric_eigen(Builder& b, Value a, bool with_vectors);

}  // namespace onnx_native::ops
