// Linear algebra of complex matrices. A + iB is worked on as the real matrix [A -B; B A]: sums,
// products, inverses and transposes of such are such again, and its eigenvalues and singular values
// are those of A + iB, each twice.
#pragma once

#include "ops/formulas/complex.h"
#include "ops/formulas/linalg.h"

namespace onnx_native::ops {

// In the dtype of the call's result.
Value narrow(const Call& call, const Complex& z);

Value doubled(Builder& b, const Complex& z);
// What a doubled matrix stands for, rows x columns.
Complex halved(Builder& b, Value matrix, const Dim& rows, const Dim& columns);

struct ComplexEigen {
  Complex values;   // [*, n]
  Complex vectors;  // nullptrs unless asked for
};
// In no order. float64.
ComplexEigen eigen(Builder& b, const Complex& a, bool with_vectors);
// Of the Hermitian matrix that one triangle stands for: values ascending, vectors orthogonal.
ComplexEigen hermitian_eigen(Builder& b, const Complex& a, bool upper);
Complex hermitian(Builder& b, const Complex& a, bool upper);

}  // namespace onnx_native::ops
