// Arithmetic on tensors and numbers.
#include <bit>
#include <cmath>
#include <numbers>

#include "base/weight.h"
#include "ops/families.h"
#include "ops/formulas/numeric.h"
#include "ops/formulas/positions.h"
#include "ops/formulas/rounding.h"

namespace onnx_native::ops {
namespace {

Value add(Builder& b, Value self, Value other, Number alpha) {
  return sum_of(b, self, scaled(b, other, alpha));
}

Value subtract(Builder& b, Value self, Value other, Number alpha) {
  return b.Sub(self, scaled(b, other, alpha));
}

Value reverse_subtract(Builder& b, Value self, Value other, Number alpha) {
  return b.Sub(other, scaled(b, self, alpha));
}

// Returns argument i if it is a literal, and a product with the rounded number would be wrong. In
// float16, that is a number that rounds to infinity, to 0 or to a subnormal number, such as 1e5. In
// bfloat16, it is each number that is rounded: products are computed in float32 anyway.
std::optional<double> unrounded(const Call& call, size_t i, DType dtype) {
  if (dtype != DType::f16 && dtype != DType::bf16) return std::nullopt;
  const auto* real = call.argument(i).get<double>();
  const auto* whole = call.argument(i).get<int64_t>();
  if (!real && !whole) return std::nullopt;
  const double number = real ? *real : static_cast<double>(*whole);
  const double size = std::abs(number);
  if (!std::isfinite(number) || size == 0) return std::nullopt;
  const bool fits = dtype == DType::f16
                        ? size >= 0x1p-14 && size <= max_value(dtype)
                        : (std::bit_cast<uint32_t>(static_cast<float>(number)) & 0xffff) == 0;
  return fits ? std::nullopt : std::optional(number);
}

// ATen computes in float32 with the number itself.
template <class Formula>
Value by_number(Builder& b, Value self, double number, const Formula& formula) {
  const Value wide = b.cast(self, accumulation_dtype(self->dtype));
  return b.cast(formula(wide, b.like(wide, number)), self->dtype);
}

Value multiply(Builder& b, Value self, Value other, const Call& call) {
  if (self->dtype == DType::boolean) return b.And(self, other);
  if (const auto number = unrounded(call, 1, self->dtype))
    return by_number(b, self, *number, [&](Value x, Value y) { return b.Mul(x, y); });
  return b.Mul(self, other);
}

Value quotient(Builder& b, Value self, Value other, const Call& call) {
  if (const auto number = unrounded(call, 1, self->dtype))
    return by_number(b, self, *number, [&](Value x, Value y) { return b.Div(x, y); });
  return b.Div(self, other);
}

// A whole quotient shows each rounding of the divisor: 2.1 in bfloat16 is less than 2.1.
template <class Divide>
Value whole_quotient(Builder& b, Value self, Value other, const Call& call, const Divide& divide) {
  const bool is_half = self->dtype == DType::f16 || self->dtype == DType::bf16;
  const auto* number = call.argument(1).get<double>();
  return is_half && number ? by_number(b, self, *number, divide) : divide(self, other);
}

Value floor_divide(Builder& b, Value self, Value other, const Call& call) {
  return whole_quotient(b, self, other, call,
                        [&](Value x, Value y) { return floor_divided(b, x, y); });
}

Value divide(Builder& b, Value self, Value other, std::optional<std::string> rounding_mode,
             const Call& call) {
  if (!rounding_mode) {
    const DType dtype = float_dtype(self->dtype);
    return b.Div(b.cast(self, dtype), b.cast(other, dtype));
  }
  if (*rounding_mode == "floor") return floor_divide(b, self, other, call);
  b.check(*rounding_mode == "trunc", "rounding_mode must be floor, trunc or None, got ",
          *rounding_mode);
  return whole_quotient(b, self, other, call,
                        [&](Value x, Value y) { return truncated(b, b.Div(x, y)); });
}

// The remainder has the sign of the dividend.
Value fmod(Builder& b, Value self, Value other) {
  if (is_floating(self->dtype)) return b.op("Mod", {self, other}, {{"fmod", 1}});
  return b.Sub(self, b.Mul(b.Div(self, other), other));
}

// A negative exponent gives 0, except for bases 1 and -1. The result wraps, like ATen's.
Value integer_pow(Builder& b, Value self, Value exponent) {
  const DType dtype = self->dtype;
  const Value base = b.cast(self, DType::i64);
  const Value power = b.cast(exponent, DType::i64);
  const Value zero = b.i64(0);
  const Value one = b.i64(1);
  if (has_elements(exponent->constant) && exponent->rank() == 0 &&
      exponent->constant->integer(0) >= 0) {
    return b.cast(integer_power(b, base, power), dtype);
  }
  const Value positive = integer_power(b, base, b.Max(power, zero));
  const Value odd = b.Equal(b.op("Mod", {power, b.i64(2)}), one);
  const Value of_minus_one = b.where(odd, b.i64(-1), one);
  const Value negative =
      b.where(b.Equal(base, one), one, b.where(b.Equal(base, b.i64(-1)), of_minus_one, zero));
  return b.cast(b.where(b.Less(power, zero), negative, positive), dtype);
}

Value pow(Builder& b, Value self, Value exponent) {
  if (has_elements(exponent->constant) && exponent->rank() == 0) {
    const double number = exponent->constant->number(0);
    if (number == 1) return self;
    if (number == 2) return b.Mul(self, self);
    if (is_floating(self->dtype)) {
      if (number == 0.5) return b.Sqrt(self);
      if (number == -0.5) return b.Reciprocal(b.Sqrt(self));
      if (number == -1) return b.Reciprocal(self);
    }
  }
  return is_floating(self->dtype) ? b.Pow(self, exponent) : integer_pow(b, self, exponent);
}

// Computes pow of both arguments in f64.
Value float_power(Builder& b, Ignored, Ignored, const Call& call) {
  return pow(b, argument_as(call, 0, DType::f64), argument_as(call, 1, DType::f64));
}

// Multiplies a tensor of f32 or f64 by a power of two. No factor is infinite or 0, so the product
// is only where it is in eager.
Value by_power_of_two(Builder& b, Value x, Value exponent) {
  const bool is_double = x->dtype == DType::f64;
  const Value low = b.like(x, is_double ? -1022 : -126);
  const Value high = b.like(x, is_double ? 1023 : 127);
  for (int factor = 0; factor < 3; ++factor) {  // from the smallest number to the largest
    const Value part = clamped(b, exponent, low, high);
    x = b.Mul(x, b.Pow(b.like(x, 2), part));
    exponent = b.Sub(exponent, part);
  }
  return x;
}

// The power of a float has the float's dtype.
Value ldexp(Builder& b, Value self, Value /*promoted*/, const Call& call) {
  const DType dtype = self->dtype;
  const Value exponent = call.tensor(1);
  if (is_floating(exponent->dtype))
    return b.Mul(self, b.cast(b.Pow(b.like(exponent, 2), exponent), dtype));
  const DType wide = accumulation_dtype(dtype);
  return b.cast(by_power_of_two(b, b.cast(self, wide), b.cast(exponent, wide)), dtype);
}

// fmax and fmin: a number takes precedence over NaN. `last` loses against every other number.
Value number_of(Builder& b, Value self, Value other, double last,
                Value (*choose)(Builder&, Value, Value)) {
  if (!is_floating(self->dtype)) return choose(b, self, other);
  const Value x = b.where(b.IsNaN(self), b.like(self, last), self);
  const Value y = b.where(b.IsNaN(other), b.like(other, last), other);
  return b.where(b.And(b.IsNaN(self), b.IsNaN(other)), self, choose(b, x, y));
}

Value log_add_exp2(Builder& b, Value self, Value other) {
  const Value ln2 = b.like(self, std::numbers::ln2);
  return b.Div(log_add_exp(b, b.Mul(self, ln2), b.Mul(other, ln2)), ln2);
}

// Returns x * log_y; 0 where x is 0, unless y is NaN.
Value x_log_y(Builder& b, Value x, Value y, Value log_y) {
  const Value zero = b.like(x, 0);
  const Value product = b.where(b.Equal(x, zero), zero, b.Mul(x, log_y));
  return b.where(b.IsNaN(y), y, product);
}

Value xlogy(Builder& b, Value self, Value other) { return x_log_y(b, self, other, b.Log(other)); }

Value copysign(Builder& b, Value self, Value other) {
  return b.Mul(b.Abs(self), b.where(sign_bit(b, other), b.like(self, -1), b.like(self, 1)));
}

Value add_product(Builder& b, Value self, Value tensor1, Value tensor2, Number value) {
  return b.Add(self, scaled(b, b.Mul(tensor1, tensor2), value));
}

Value add_quotient(Builder& b, Value self, Value tensor1, Value tensor2, Number value) {
  return b.Add(self, scaled(b, b.Div(tensor1, tensor2), value));
}

Value lerp(Builder& b, Value self, Value end, Value weight) {
  const Value difference = b.Sub(end, self);
  const Value from_start = b.Add(self, b.Mul(weight, difference));
  const Value from_end = b.Sub(end, b.Mul(difference, b.Sub(b.like(self, 1), weight)));
  return b.where(b.Less(b.Abs(weight), b.like(self, 0.5)), from_start, from_end);
}

Value lerp_scalar(Builder& b, Value self, Value end, Number weight) {
  const Value difference = b.Sub(end, self);
  if (!weight.is_constant()) return lerp(b, self, end, b.like(self, weight));
  if (std::abs(weight.to_double()) < 0.5) return b.Add(self, scaled(b, difference, weight));
  return b.Sub(end, scaled(b, difference, Number(1) - weight));
}

Value heaviside(Builder& b, Value self, Value values) {
  const Value zero = b.like(self, 0);
  if (self->dtype == DType::boolean) return b.Or(self, values);
  return b.where(not_equal(b, self, zero), b.cast(b.Greater(self, zero), self->dtype), values);
}

Value isclose(Builder& b, Value self, Value other, Number rtol, Number atol, bool equal_nan) {
  Value close = b.Equal(self, other);
  if (is_floating(self->dtype) && equal_nan) {
    close = b.Or(close, b.And(b.IsNaN(self), b.IsNaN(other)));
  }
  if (is_zero(rtol) && is_zero(atol)) return close;
  const DType dtype = float_dtype(self->dtype);
  const Value x = b.cast(self, dtype);
  const Value y = b.cast(other, dtype);
  const Value allowed = b.Add(b.like(x, atol), b.Abs(b.Mul(b.like(x, rtol), y)));
  const Value difference = b.Abs(b.Sub(x, y));
  const Value finite = b.Less(difference, b.like(x, kInfinity));
  return b.Or(close, b.And(finite, b.LessOrEqual(difference, allowed)));
}

void register_power(OpTable& ops) {
  ops.def({"aten::pow.Tensor_Tensor", "aten::pow.Tensor_Scalar", "aten::pow.Scalar"},
          Promote::standard, pow);
  ops.def({"aten::float_power.Tensor_Tensor", "aten::float_power.Tensor_Scalar",
           "aten::float_power.Scalar"},
          float_power);
  ops.def("aten::ldexp.Tensor", Promote::int_to_float, ldexp);
}

void register_aliases(OpTable& ops) {
  for (const auto& [op, target] : std::initializer_list<std::pair<const char*, const char*>>{
           {"aten::subtract.Tensor", "aten::sub.Tensor"},
           {"aten::subtract.Scalar", "aten::sub.Scalar"},
           {"aten::multiply.Tensor", "aten::mul.Tensor"},
           {"aten::multiply.Scalar", "aten::mul.Scalar"},
           {"aten::divide.Tensor", "aten::div.Tensor"},
           {"aten::divide.Scalar", "aten::div.Scalar"},
           {"aten::true_divide.Tensor", "aten::div.Tensor"},
           {"aten::true_divide.Scalar", "aten::div.Scalar"},
           {"aten::divide.Tensor_mode", "aten::div.Tensor_mode"},
           {"aten::divide.Scalar_mode", "aten::div.Scalar_mode"},
           {"aten::arctan2", "aten::atan2"},
           {"aten::max.other", "aten::maximum"},
           {"aten::min.other", "aten::minimum"},
           {"aten::special_xlogy", "aten::xlogy.Tensor"},
           {"aten::special_xlogy.other_scalar", "aten::xlogy.Scalar_Other"},
           {"aten::special_xlogy.self_scalar", "aten::xlogy.Scalar_Self"}}) {
    ops.alias(op, target);
  }
}

}  // namespace

void register_binary(OpTable& ops) {
  const auto standard = Promote::standard;
  const auto to_float = Promote::int_to_float;
  ops.def({"aten::add.Tensor", "aten::add.Scalar"}, standard, add);
  ops.def({"aten::sub.Tensor", "aten::sub.Scalar"}, standard, subtract);
  ops.def({"aten::rsub.Tensor", "aten::rsub.Scalar"}, standard, reverse_subtract);
  ops.def({"aten::mul.Tensor", "aten::mul.Scalar"}, standard, multiply);
  ops.def({"aten::div.Tensor", "aten::div.Scalar"}, to_float, quotient);
  ops.def({"aten::div.Tensor_mode", "aten::div.Scalar_mode"}, standard, divide);
  ops.def({"aten::floor_divide", "aten::floor_divide.Scalar"}, standard, floor_divide);
  ops.def({"aten::remainder.Tensor", "aten::remainder.Scalar", "aten::remainder.Scalar_Tensor"},
          standard, floored_remainder);
  ops.def({"aten::fmod.Tensor", "aten::fmod.Scalar"}, standard, fmod);
  ops.def("aten::atan2", to_float, rounded_once(atan2));
  ops.def("aten::hypot", standard, rounded_once(hypot));
  ops.def("aten::maximum", standard, larger);
  ops.def("aten::minimum", standard, smaller);
  ops.def("aten::fmax", standard, [](Builder& b, Value self, Value other) {
    return number_of(b, self, other, -kInfinity, larger);
  });
  ops.def("aten::fmin", standard, [](Builder& b, Value self, Value other) {
    return number_of(b, self, other, kInfinity, smaller);
  });
  ops.def("aten::logaddexp", to_float, rounded_once(log_add_exp));
  ops.def("aten::logaddexp2", to_float, rounded_once(log_add_exp2));
  ops.def({"aten::xlogy.Tensor", "aten::xlogy.Scalar_Self", "aten::xlogy.Scalar_Other"}, to_float,
          xlogy);
  ops.def({"aten::special_xlog1py", "aten::special_xlog1py.self_scalar",
           "aten::special_xlog1py.other_scalar"},
          to_float, [](Builder& b, Value self, Value other) {
            return x_log_y(b, self, other, log1p(b, other));
          });
  ops.def({"aten::copysign.Tensor", "aten::copysign.Scalar"}, to_float, copysign);
  ops.def("aten::addcmul", standard, rounded_once(add_product));
  ops.def("aten::addcdiv", to_float, rounded_once(add_quotient));
  ops.def("aten::lerp.Tensor", standard, rounded_once(lerp));
  ops.def("aten::lerp.Scalar", standard, rounded_once(lerp_scalar));
  ops.def("aten::heaviside", standard, heaviside);
  ops.def("aten::isclose", standard, isclose);
  register_power(ops);
  register_aliases(ops);
}

}  // namespace onnx_native::ops
