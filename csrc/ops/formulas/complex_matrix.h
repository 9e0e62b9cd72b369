// Linear algebra of complex matrices. A + iB is represented by the doubled real matrix [A -B; B A].
// Sums, products, inverses and transposes of doubled matrices are doubled matrices too, and their
// eigenvalues and singular values are those of A + iB, each twice.
#pragma once

#include "ops/formulas/complex.h"
#include "ops/formulas/linalg.h"

namespace onnx_native::ops {

// Joins the parts of z and casts them to the dtype of the call's result.
Value narrow(const Call& call, const Complex& z);

Value doubled(Builder& b, const Complex& z);
// Returns the rows x columns complex matrix that a doubled matrix represents.
Complex halved(Builder& b, Value matrix, const Dim& rows, const Dim& columns);

struct ComplexEigen {
  Complex values;   // [*, n]
  Complex vectors;  // nullptr unless requested
};
// Returns the eigenvalues in no particular order. float64.
ComplexEigen eigen(Builder& b, const Complex& a, bool with_vectors);
// Decomposes the Hermitian matrix stored in one triangle: ascending values, orthogonal vectors.
ComplexEigen hermitian_eigen(Builder& b, const Complex& a, bool upper);
Complex hermitian(Builder& b, const Complex& a, bool upper);

}  // namespace onnx_native::ops
