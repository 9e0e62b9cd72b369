// Elementwise formulas that several families of operators build on.
#pragma once

#include <optional>

#include "onnx/builder.h"
#include "ops/engine/call.h"

namespace onnx_native::ops {

// x * factor, nothing when the factor is one; of bools, the conjunction.
Value scaled(Builder& b, Value x, const Number& factor);
// The sum; of bools, the disjunction.
Value sum_of(Builder& b, Value x, Value y);
// The greater or the smaller of two; NaN wins. Of bools, Or and And.
Value larger(Builder& b, Value x, Value y);
Value smaller(Builder& b, Value x, Value y);
// min(max(x, low), high): `high` wins where they cross. NaN stays.
Value clamped(Builder& b, Value x, std::optional<Value> low, std::optional<Value> high);
Value clamped(Builder& b, Value x, double low, double high);

// Comparisons for all dtypes: bools compare as integers.
Value less(Builder& b, Value x, Value y);
Value less_or_equal(Builder& b, Value x, Value y);
Value not_equal(Builder& b, Value x, Value y);

// Bool tensors of x's shape.
Value is_nan(Builder& b, Value x);
// Whether the sign bit is set: of -0.0 it is.
Value sign_bit(Builder& b, Value x);
// One value everywhere in x's shape.
Value filled_like(Builder& b, Value x, DType dtype, const Number& value);

Value truncated(Builder& b, Value x);
Value negated(Builder& b, Value x);
// int64 to non-negative int64 powers; wraps as ATen's. ONNX Runtime computes its Pow in float64.
Value integer_power(Builder& b, Value base, Value power);
// Accurate near zero.
Value log1p(Builder& b, Value x);
Value expm1(Builder& b, Value x);
// log(exp(x) + exp(y)) without overflow; of equal infinities, that infinity.
Value log_add_exp(Builder& b, Value x, Value y);
// The angle of (other, self) and its length, without overflow; infinities and signed zeros as in C.
Value atan2(Builder& b, Value self, Value other);
Value hypot(Builder& b, Value self, Value other);
// Rounds the quotient towards minus infinity, as Python's //.
Value floor_divided(Builder& b, Value x, Value y);

// The tensor, or number, that argument i is, as a tensor of this dtype.
Value argument_as(const Call& call, size_t i, DType dtype);
// Whether argument i is written as a number in the program (not computed).
bool is_literal(const Call& call, size_t i);

// Computes f16 and bf16 in f32, as ATen's kernels accumulate.
inline DType accumulation_dtype(DType dtype) {
  return dtype == DType::f16 || dtype == DType::bf16 ? DType::f32 : dtype;
}

}  // namespace onnx_native::ops
