// Elementwise formulas shared by several families of operators.
#pragma once

#include <limits>
#include <optional>

#include "onnx/builder.h"
#include "ops/engine/call.h"

namespace onnx_native::ops {

inline constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Returns a float64 scalar.
inline Value f64(Builder& b, double value) { return b.scalar(DType::f64, value); }

// Returns x * factor, or x if the factor is one; And for bools.
Value scaled(Builder& b, Value x, const Number& factor);
// Returns x + y; Or for bools.
Value sum_of(Builder& b, Value x, Value y);
// Returns the greater or the smaller operand and propagates NaN; Or and And for bools.
Value larger(Builder& b, Value x, Value y);
Value smaller(Builder& b, Value x, Value y);
// Returns min(max(x, low), high), so `high` wins if low > high. Propagates NaN.
Value clamped(Builder& b, Value x, std::optional<Value> low, std::optional<Value> high);
Value clamped(Builder& b, Value x, double low, double high);

// Comparisons for all dtypes; bools compare as integers.
Value less(Builder& b, Value x, Value y);
Value less_or_equal(Builder& b, Value x, Value y);
Value not_equal(Builder& b, Value x, Value y);

// Returns true where x is NaN, in x's shape.
Value is_nan(Builder& b, Value x);
// Returns true where the sign bit is set, including for -0.0.
Value sign_bit(Builder& b, Value x);
// Returns a tensor of x's shape filled with `value`.
Value filled_like(Builder& b, Value x, DType dtype, const Number& value);

Value truncated(Builder& b, Value x);
Value negated(Builder& b, Value x);
// int64 powers with non-negative int64 exponents; wraps like ATen. ONNX Runtime's Pow computes in
// float64.
Value integer_power(Builder& b, Value base, Value power);
// Returns log(sigmoid(x)), accurate for all x.
Value log_sigmoid(Builder& b, Value x);
// Returns log(x). If x is a Sigmoid, it is that of the logit: ONNX Runtime's float32 Sigmoid is off
// by a tenth at -15 and 0 below -17.
Value logarithm(Builder& b, Value x);
// Accurate near zero.
Value log1p(Builder& b, Value x);
Value expm1(Builder& b, Value x);
// Returns log(exp(x) + exp(y)) without overflow; two equal infinities give that infinity.
Value log_add_exp(Builder& b, Value x, Value y);
// The angle of the point (other, self) and its distance from the origin, without overflow.
// Infinities and signed zeros follow C.
Value atan2(Builder& b, Value self, Value other);
Value hypot(Builder& b, Value self, Value other);
// Rounds the quotient toward minus infinity, like Python's //.
Value floor_divided(Builder& b, Value x, Value y);
// The remainder of that division. It has the sign of y.
Value floored_remainder(Builder& b, Value x, Value y);

// Returns argument i, a tensor or number, as a tensor of this dtype.
Value argument_as(const Call& call, size_t i, DType dtype);
// Returns true if argument i is a literal in the program, not a computed value.
bool is_literal(const Call& call, size_t i);

// Returns float32 for f16 and bf16, matching the accumulation of ATen's kernels.
inline DType accumulation_dtype(DType dtype) {
  return dtype == DType::f16 || dtype == DType::bf16 ? DType::f32 : dtype;
}

}  // namespace onnx_native::ops
