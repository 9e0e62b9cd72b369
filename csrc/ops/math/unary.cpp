// Mathematical functions of one tensor, and predicates on its elements.
#include <cmath>
#include <numbers>

#include "ops/families.h"
#include "ops/formulas/numeric.h"
#include "ops/formulas/rounding.h"

namespace onnx_native::ops {
namespace {

// Emits an ONNX operator for floats; returns integers unchanged.
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

Value logit(Builder& b, Value self, std::optional<Number> eps) {
  if (eps) self = b.Min(b.Max(self, b.like(self, *eps)), b.like(self, Number(1) - *eps));
  return b.Log(b.Div(self, b.Sub(b.like(self, 1), self)));
}

Value sinc(Builder& b, Value self) {
  const Value x = b.Mul(self, b.like(self, std::numbers::pi));
  return b.where(b.Equal(self, b.like(self, 0)), b.like(self, 1), b.Div(b.Sin(x), x));
}

// Rounds half to even. Scales like ATen, by a power of ten that is exact.
Value round_decimals(Builder& b, Value self, int64_t decimals) {
  if (!is_floating(self->dtype)) return self;
  if (decimals == 0) return b.Round(self);
  const Value power = b.like(self, std::pow(10.0, std::abs(static_cast<double>(decimals))));
  return decimals > 0 ? b.Div(b.Round(b.Mul(self, power)), power)
                      : b.Mul(b.Round(b.Div(self, power)), power);
}

Value nan_to_num(Builder& b, Value self, std::optional<Number> nan, std::optional<Number> posinf,
                 std::optional<Number> neginf) {
  if (!is_floating(self->dtype)) return self;
  const auto replace = [&](Value x, Value where, const Number& by) {
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
  ops.def({"aten::round.decimals", "aten::special_round"}, rounded_once(round_decimals));
  ops.def({"aten::trunc", "aten::fix"}, [](Builder& b, Value self) { return truncated(b, self); });
  ops.def("aten::frac", [](Builder& b, Value self) { return b.Sub(self, truncated(b, self)); });
}

}  // namespace

void register_unary(OpTable& ops) {
  const auto to_float = Promote::int_to_float;
  ops.unary("aten::exp", "Exp", to_float);
  ops.def("aten::log", to_float, logarithm);
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
  ops.unary("aten::sigmoid", "Sigmoid", to_float);
  for (const auto& [op, target] : std::initializer_list<std::pair<const char*, const char*>>{
           {"aten::arcsin", "aten::asin"},
           {"aten::arccos", "aten::acos"},
           {"aten::arctan", "aten::atan"},
           {"aten::arcsinh", "aten::asinh"},
           {"aten::arccosh", "aten::acosh"},
           {"aten::arctanh", "aten::atanh"},
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
  ops.def("aten::log2", to_float, rounded_once([](Builder& b, Value self) {
            return b.Div(b.Log(self), b.like(self, std::numbers::ln2));
          }));
  ops.def("aten::log10", to_float, rounded_once([](Builder& b, Value self) {
            return b.Div(b.Log(self), b.like(self, std::numbers::ln10));
          }));
  ops.def({"aten::log1p", "aten::special_log1p"}, to_float,
          rounded_once([](Builder& b, Value self) { return log1p(b, self); }));
  ops.def({"aten::expm1", "aten::special_expm1"}, to_float,
          rounded_once([](Builder& b, Value self) { return expm1(b, self); }));
  ops.def({"aten::logit", "aten::special_logit"}, to_float, logit);
  ops.def("aten::deg2rad", to_float,
          [](Builder& b, Value self) { return b.Mul(self, b.like(self, std::numbers::pi / 180)); });
  ops.def("aten::rad2deg", to_float,
          [](Builder& b, Value self) { return b.Mul(self, b.like(self, 180 / std::numbers::pi)); });
  ops.def({"aten::sinc", "aten::special_sinc"}, to_float, rounded_once(sinc));
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
