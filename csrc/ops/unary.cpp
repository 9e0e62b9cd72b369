// Mathematical functions of one tensor, and questions about its elements.
#include <cmath>
#include <limits>
#include <numbers>

#include "ops/families.h"
#include "ops/numeric.h"

namespace onnx_native::ops {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// An ONNX operator for floats that leaves integers as they are.
auto rounding(const char* onnx_op) {
  return [onnx_op](Builder& b, Value self) {
    return is_floating(self->dtype) ? b.op(onnx_op, {self}) : self;
  };
}

Value sign(Builder& b, Value x) {
  if (x->dtype == DType::boolean) return x;
  const Value sign = b.Sign(x);
  return is_floating(x->dtype) ? b.where(b.IsNaN(x), b.like(x, 0), sign) : sign;
}

// Chebyshev series of ln(erfc(z) e^(z^2) (1 + z/2)) in 4 / (2 + z) - 2, for z >= 0.
constexpr double kErfc[] = {-1.3026537197817094,
                            6.4196979235649026e-1,
                            1.9476473204185836e-2,
                            -9.561514786808631e-3,
                            -9.46595344482036e-4,
                            3.66839497852761e-4,
                            4.2523324806907e-5,
                            -2.0278578112534e-5,
                            -1.624290004647e-6,
                            1.303655835580e-6,
                            1.5626441722e-8,
                            -8.5238095915e-8,
                            6.529054439e-9,
                            5.059343495e-9,
                            -9.91364156e-10,
                            -2.27365122e-10,
                            9.6467911e-11,
                            2.394038e-12,
                            -6.886027e-12,
                            8.94487e-13,
                            3.13092e-13,
                            -1.12708e-13,
                            3.81e-16,
                            7.106e-15,
                            -1.523e-15,
                            -9.4e-17,
                            1.21e-16,
                            -2.8e-17};

// 1 - erf(x) loses everything for x > 4; the series keeps the relative accuracy.
Value erfc(Builder& b, Value x) {
  const DType dtype = x->dtype;
  const int terms = dtype == DType::f64 ? 28 : 14;
  x = b.cast(x, accumulation_dtype(dtype));
  const auto number = [&](double value) { return b.like(x, value); };
  const Value z = b.Abs(x);
  const Value t = b.Div(number(2), b.Add(z, number(2)));
  const Value twice = b.Sub(b.Mul(t, number(4)), number(2));
  Value d = number(kErfc[terms - 1]);
  Value dd = number(0);
  for (int i = terms - 2; i > 0; --i) {
    const Value next = b.Add(b.Sub(b.Mul(twice, d), dd), number(kErfc[i]));
    dd = d;
    d = next;
  }
  const Value series = b.Sub(b.Mul(number(0.5), b.Add(number(kErfc[0]), b.Mul(twice, d))), dd);
  const Value tail = b.Mul(t, b.Exp(b.Sub(series, b.Mul(z, z))));
  return b.cast(b.where(b.Less(x, number(0)), b.Sub(number(2), tail), tail), dtype);
}

Value logit(Builder& b, Value self, std::optional<double> eps) {
  if (eps) self = b.Min(b.Max(self, b.like(self, *eps)), b.like(self, 1 - *eps));
  return b.Log(b.Div(self, b.Sub(b.like(self, 1), self)));
}

// Half to even, as ATen scales: by a power of ten that is exact.
Value round_decimals(Builder& b, Value self, int64_t decimals) {
  if (!is_floating(self->dtype)) return self;
  if (decimals == 0) return b.Round(self);
  const Value power = b.like(self, std::pow(10.0, std::abs(static_cast<double>(decimals))));
  return decimals > 0 ? b.Div(b.Round(b.Mul(self, power)), power)
                      : b.Mul(b.Round(b.Div(self, power)), power);
}

Value nan_to_num(Builder& b, Value self, std::optional<double> nan, std::optional<double> posinf,
                 std::optional<double> neginf) {
  if (!is_floating(self->dtype)) return self;
  const auto replace = [&](Value x, Value where, double by) {
    return b.where(where, b.like(self, by), x);
  };
  Value x = replace(self, b.IsNaN(self), nan.value_or(0));
  x = replace(x, b.Equal(self, b.like(self, kInfinity)), posinf.value_or(max_value(self->dtype)));
  return replace(x, b.Equal(self, b.like(self, -kInfinity)),
                 neginf.value_or(lowest_value(self->dtype)));
}

Value equals_number(Builder& b, Value self, double number) {
  return is_floating(self->dtype) ? b.Equal(self, b.like(self, number))
                                  : filled_like(b, self, DType::boolean, false);
}

void register_questions(OpTable& ops) {
  ops.def("aten::isnan", [](Builder& b, Value self) { return is_nan(b, self); });
  ops.def("aten::isinf", [](Builder& b, Value self) {
    return is_floating(self->dtype) ? b.Equal(b.Abs(self), b.like(self, kInfinity))
                                    : filled_like(b, self, DType::boolean, false);
  });
  ops.def("aten::isfinite", [](Builder& b, Value self) {
    return is_floating(self->dtype) ? b.Less(b.Abs(self), b.like(self, kInfinity))
                                    : filled_like(b, self, DType::boolean, true);
  });
  ops.def("aten::isposinf",
          [](Builder& b, Value self) { return equals_number(b, self, kInfinity); });
  ops.def("aten::isneginf",
          [](Builder& b, Value self) { return equals_number(b, self, -kInfinity); });
  ops.def("aten::isreal",
          [](Builder& b, Value self) { return filled_like(b, self, DType::boolean, true); });
  ops.def("aten::signbit", [](Builder& b, Value self) { return sign_bit(b, self); });
}

void register_rounding(OpTable& ops) {
  ops.def("aten::ceil", rounding("Ceil"));
  ops.def("aten::floor", rounding("Floor"));
  ops.def("aten::round", rounding("Round"));
  ops.def("aten::round.decimals", round_decimals);
  ops.def({"aten::trunc", "aten::fix"}, [](Builder& b, Value self) { return truncated(b, self); });
  ops.def("aten::frac", [](Builder& b, Value self) { return b.Sub(self, truncated(b, self)); });
}

}  // namespace

void register_unary(OpTable& ops) {
  const auto to_float = Promote::int_to_float;
  ops.unary("aten::exp", "Exp", to_float);
  ops.unary("aten::log", "Log", to_float);
  ops.unary("aten::sqrt", "Sqrt", to_float);
  ops.unary("aten::reciprocal", "Reciprocal", to_float);
  ops.unary("aten::sin", "Sin", to_float);
  ops.unary("aten::cos", "Cos", to_float);
  ops.unary("aten::tan", "Tan", to_float);
  ops.unary("aten::asin", "Asin", to_float);
  ops.unary("aten::acos", "Acos", to_float);
  ops.unary("aten::atan", "Atan", to_float);
  ops.unary("aten::sinh", "Sinh", to_float);
  ops.unary("aten::cosh", "Cosh", to_float);
  ops.unary("aten::tanh", "Tanh", to_float);
  ops.unary("aten::asinh", "Asinh", to_float);
  ops.unary("aten::acosh", "Acosh", to_float);
  ops.unary("aten::atanh", "Atanh", to_float);
  ops.unary("aten::erf", "Erf", to_float);
  ops.unary("aten::sigmoid", "Sigmoid", to_float);
  for (const auto& [op, target] : std::initializer_list<std::pair<const char*, const char*>>{
           {"aten::arcsin", "aten::asin"},
           {"aten::arccos", "aten::acos"},
           {"aten::arctan", "aten::atan"},
           {"aten::arcsinh", "aten::asinh"},
           {"aten::arccosh", "aten::acosh"},
           {"aten::arctanh", "aten::atanh"},
           {"aten::special_erf", "aten::erf"},
           {"aten::special_expit", "aten::sigmoid"}}) {
    ops.alias(op, target);
  }

  ops.def({"aten::abs", "aten::absolute"}, [](Builder& b, Value self) { return b.Abs(self); });
  ops.def({"aten::neg", "aten::negative"}, [](Builder& b, Value self) { return negated(b, self); });
  ops.def("aten::sign", sign);
  ops.def("aten::sgn", sign);
  ops.def("aten::square", Promote::integer,
          [](Builder& b, Value self) { return b.Mul(self, self); });
  ops.def("aten::rsqrt", to_float,
          [](Builder& b, Value self) { return b.Reciprocal(b.Sqrt(self)); });
  ops.def({"aten::exp2", "aten::special_exp2"}, to_float,
          [](Builder& b, Value self) { return b.Pow(b.like(self, 2), self); });
  ops.def("aten::log2", to_float, [](Builder& b, Value self) {
    return b.Div(b.Log(self), b.like(self, std::numbers::ln2));
  });
  ops.def("aten::log10", to_float, [](Builder& b, Value self) {
    return b.Div(b.Log(self), b.like(self, std::numbers::ln10));
  });
  ops.def({"aten::log1p", "aten::special_log1p"}, to_float,
          [](Builder& b, Value self) { return log1p(b, self); });
  ops.def({"aten::expm1", "aten::special_expm1"}, to_float,
          [](Builder& b, Value self) { return expm1(b, self); });
  ops.def({"aten::erfc", "aten::special_erfc"}, to_float, erfc);
  ops.def({"aten::logit", "aten::special_logit"}, to_float, logit);
  ops.def("aten::deg2rad", to_float,
          [](Builder& b, Value self) { return b.Mul(self, b.like(self, std::numbers::pi / 180)); });
  ops.def("aten::rad2deg", to_float,
          [](Builder& b, Value self) { return b.Mul(self, b.like(self, 180 / std::numbers::pi)); });
  ops.def({"aten::sinc", "aten::special_sinc"}, to_float, [](Builder& b, Value self) {
    const Value x = b.Mul(self, b.like(self, std::numbers::pi));
    return b.where(b.Equal(self, b.like(self, 0)), b.like(self, 1), b.Div(b.Sin(x), x));
  });
  ops.def("aten::angle", to_float, [](Builder& b, Value self) {
    const Value zero = b.like(self, 0);
    const Value angle = b.where(b.Less(self, zero), b.like(self, std::numbers::pi), zero);
    return b.where(b.IsNaN(self), self, angle);
  });
  ops.def("aten::nan_to_num", nan_to_num);
  register_rounding(ops);
  register_questions(ops);
}

}  // namespace onnx_native::ops
