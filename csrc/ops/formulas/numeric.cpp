#include "ops/formulas/numeric.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "base/weight.h"
#include "ops/formulas/loop.h"

namespace onnx_native::ops {
Value scaled(Builder& b, Value x, const Number& factor) {
  if (is_one(factor)) return x;
  return x->dtype == DType::boolean ? b.And(x, b.like(x, factor)) : b.Mul(x, b.like(x, factor));
}

Value sum_of(Builder& b, Value x, Value y) {
  return x->dtype == DType::boolean ? b.Or(x, y) : b.Add(x, y);
}

Value larger(Builder& b, Value x, Value y) {
  return x->dtype == DType::boolean ? b.Or(x, y) : b.Max(x, y);
}

Value smaller(Builder& b, Value x, Value y) {
  return x->dtype == DType::boolean ? b.And(x, y) : b.Min(x, y);
}

namespace {

// Returns the value of a 0-d constant; nullopt for others and for NaN.
std::optional<double> literal(Value x) {
  if (!has_elements(x->constant) || x->rank() != 0) return std::nullopt;
  const double number = x->constant->number(0);
  return std::isnan(number) ? std::nullopt : std::optional(number);
}

}  // namespace

// ONNX Runtime's Where drops the sign of a zero in its second input but keeps it in its third. Here
// and in binary.cpp, a value that may be -0.0 is the third input.

// ONNX Runtime's Clip keeps the sign of a zero, matching eager; its Max and Min do not. A Clip with
// only one bound would use the largest finite number for the other one.
Value clamped(Builder& b, Value x, std::optional<Value> low, std::optional<Value> high) {
  const auto least = low ? literal(*low) : -kInfinity;
  const auto most = high ? literal(*high) : kInfinity;
  if (least && most && *least <= *most && is_floating(x->dtype)) {
    return b.op("Clip", {x, low ? *low : b.like(x, *least), high ? *high : b.like(x, *most)});
  }
  if (low && high && least && most && *least <= *most && x->dtype != DType::boolean)
    return b.op("Clip", {x, *low, *high});
  if (low) x = larger(b, x, *low);
  return high ? smaller(b, x, *high) : x;
}

Value clamped(Builder& b, Value x, double low, double high) {
  return clamped(b, x, b.like(x, low), b.like(x, high));
}

namespace {

Value ordered(Builder& b, Value x) {
  return x->dtype == DType::boolean ? b.cast(x, DType::i32) : x;
}

}  // namespace

Value less(Builder& b, Value x, Value y) { return b.Less(ordered(b, x), ordered(b, y)); }

Value less_or_equal(Builder& b, Value x, Value y) {
  return b.LessOrEqual(ordered(b, x), ordered(b, y));
}

Value not_equal(Builder& b, Value x, Value y) { return b.Not(b.Equal(x, y)); }

Value filled_like(Builder& b, Value x, DType dtype, const Number& value) {
  return b.expand(b.scalar(dtype, value), x->known_shape());
}

Value is_nan(Builder& b, Value x) {
  return is_floating(x->dtype) ? b.IsNaN(x) : filled_like(b, x, DType::boolean, false);
}

Value sign_bit(Builder& b, Value x) {
  const Value zero = b.like(x, 0);
  if (!is_floating(x->dtype)) return less(b, x, zero);
  return b.Or(b.Less(x, zero), b.Less(b.Reciprocal(x), zero));
}

Value truncated(Builder& b, Value x) {
  if (!is_floating(x->dtype)) return x;
  return b.where(b.Greater(x, b.like(x, 0)), b.Floor(x), b.Ceil(x));
}

Value negated(Builder& b, Value x) {
  return is_signed(x->dtype) ? b.Neg(x) : b.Sub(b.like(x, 0), x);
}

namespace {

Value constant_power(Builder& b, Value base, int64_t power) {
  Value result = nullptr;
  for (Value square = base; power > 0; power /= 2) {
    if (power % 2 == 1) result = result ? b.Mul(result, square) : square;
    if (power > 1) square = b.Mul(square, square);
  }
  return result ? result : filled_like(b, base, DType::i64, 1);
}

}  // namespace

Value integer_power(Builder& b, Value base, Value power) {
  if (has_elements(power->constant) && power->rank() == 0)
    return constant_power(b, base, power->constant->integer(0));
  const Shape shape = onnx::broadcast(base->known_shape(), power->known_shape());
  const auto step = [&](Value, const Values& states) {
    const Value result = states[0], square = states[1], left = states[2];
    const Value odd = b.Equal(b.op("Mod", {left, b.i64(2)}), b.i64(1));
    const Value rest = b.Div(left, b.i64(2));
    return Values{any_true(b, b.Greater(rest, b.i64(0))),
                  b.where(odd, b.Mul(result, square), result), b.Mul(square, square), rest};
  };
  return loop_while(b, b.i64(63),
                    {b.full(DType::i64, 1, shape), b.expand(base, shape), b.expand(power, shape)},
                    step)[0];
}

Value log_sigmoid(Builder& b, Value x) { return b.Neg(b.op("Softplus", {b.Neg(x)})); }

Value logarithm(Builder& b, Value x) {
  const onnx::Node* node = x->producer;
  const bool is_sigmoid = node && node->op_type == "Sigmoid" && x->dtype == DType::f32;
  return is_sigmoid ? log_sigmoid(b, node->inputs[0]) : b.Log(x);
}

// The factor x / ((1 + x) - 1) corrects the rounding error of 1 + x (Kahan).
Value log1p(Builder& b, Value x) {
  const Value one = b.like(x, 1);
  const Value u = b.Add(x, one);
  const Value rounded = b.Sub(u, one);
  const Value log = b.Log(u);
  const Value corrected = b.where(b.Equal(rounded, x), log, b.Mul(log, b.Div(x, rounded)));
  return b.where(not_equal(b, u, one), corrected, x);
}

// exp(x) - 1 = tanh(x/2) * (exp(x) + 1)
Value expm1(Builder& b, Value x) {
  return b.Mul(b.Tanh(b.Mul(x, b.like(x, 0.5))), b.Add(b.Exp(x), b.like(x, 1)));
}

Value log_add_exp(Builder& b, Value x, Value y) {
  const Value most = b.Max(x, y);
  const Value difference = b.Sub(x, y);
  const Value sum = b.Add(most, log1p(b, b.Exp(b.Neg(b.Abs(difference)))));
  const Value infinity = b.like(x, std::numeric_limits<double>::infinity());
  return b.where(b.And(b.Equal(x, y), b.Equal(b.Abs(x), infinity)), x, sum);
}

namespace {

// Returns true if the elements are integers of which none can be negative.
bool is_never_negative(Value x) {
  if (!is_signed(x->dtype)) return true;
  if (x->contents) return std::ranges::all_of(*x->contents, &Dim::known_non_negative);
  const onnx::Node* node = x->producer;
  if (!node) return false;
  if (node->is_any({"ArgMax", "ArgMin", "NonZero"})) return true;
  if (node->is("TopK")) return x == node->outputs[1];
  const bool moves = node->is_any({"Expand", "Flatten", "Gather", "Identity", "Reshape", "Slice",
                                   "Squeeze", "Transpose", "Unsqueeze"});
  return moves && is_never_negative(node->inputs[0]);
}

}  // namespace

Value floor_divided(Builder& b, Value x, Value y) {
  const Value zero = b.like(x, 0);
  if (!is_floating(x->dtype)) {
    const Value quotient = b.Div(x, y);
    if (is_never_negative(x) && is_never_negative(y)) return quotient;
    const Value remainder = b.Sub(x, b.Mul(quotient, y));
    const Value adjust =
        b.And(not_equal(b, remainder, zero), b.Xor(b.Less(remainder, zero), b.Less(y, zero)));
    return b.where(adjust, b.Sub(quotient, b.like(x, 1)), quotient);
  }
  // Matches ATen's div_floor_floating: uses the exact remainder, not the rounded quotient.
  const Value one = b.like(x, 1);
  const Value remainder = b.op("Mod", {x, y}, {{"fmod", 1}});
  const Value quotient = b.Div(b.Sub(x, remainder), y);
  const Value adjust =
      b.And(not_equal(b, remainder, zero), b.Xor(b.Less(remainder, zero), b.Less(y, zero)));
  const Value adjusted = b.where(adjust, b.Sub(quotient, one), quotient);
  const Value floor = b.Floor(adjusted);
  const Value nearest =
      b.where(b.Greater(b.Sub(adjusted, floor), b.like(x, 0.5)), b.Add(floor, one), floor);
  const Value exact = b.Div(x, y);
  const Value signed_zero = b.Mul(exact, zero);
  return b.where(b.Equal(y, zero), exact,
                 b.where(not_equal(b, adjusted, zero), nearest, signed_zero));
}

Value floored_remainder(Builder& b, Value x, Value y) {
  if (!is_floating(x->dtype)) return b.op("Mod", {x, y});
  const Value zero = b.like(x, 0);
  const Value remainder = b.op("Mod", {x, y}, {{"fmod", 1}});
  const Value adjust =
      b.And(not_equal(b, remainder, zero), b.Xor(b.Less(remainder, zero), b.Less(y, zero)));
  return b.where(adjust, b.Add(remainder, y), remainder);
}

Value argument_as(const Call& call, size_t i, DType dtype) {
  return call.builder().cast(call.tensor(i, dtype), dtype);
}

bool is_literal(const Call& call, size_t i) { return call.argument(i).as_value() == nullptr; }

// Starts from the angle to the nearer axis, so that infinities and signed zeros match C.
Value atan2(Builder& b, Value self, Value other) {
  const auto number = [&](double value) { return b.like(self, value); };
  const Value y = b.Abs(self);
  const Value x = b.Abs(other);
  const Value longer = b.Max(x, y);
  const Value shorter = b.Min(x, y);
  const Value infinite = b.Equal(shorter, number(kInfinity));
  const Value ratio = b.Div(shorter, b.where(b.Equal(longer, number(0)), number(1), longer));
  Value angle = b.op("Atan", {b.where(infinite, number(1), ratio)});
  angle = b.where(b.Greater(y, x), b.Sub(number(std::numbers::pi / 2), angle), angle);
  angle = b.where(sign_bit(b, other), b.Sub(number(std::numbers::pi), angle), angle);
  return b.where(b.Not(sign_bit(b, self)), angle, b.Neg(angle));
}

// Scales by the longer side to prevent overflow. An infinite side takes precedence over NaN.
Value hypot(Builder& b, Value self, Value other) {
  const Value x = b.Abs(self);
  const Value y = b.Abs(other);
  const Value zero = b.like(x, 0);
  const Value infinity = b.like(x, kInfinity);
  const Value longer = b.Max(x, y);
  const Value ratio = b.Div(b.Min(x, y), b.where(b.Equal(longer, zero), b.like(x, 1), longer));
  const Value length = b.Mul(longer, b.Sqrt(b.Add(b.like(x, 1), b.Mul(ratio, ratio))));
  return b.where(b.Or(b.Equal(x, infinity), b.Equal(y, infinity)), infinity, length);
}

}  // namespace onnx_native::ops
