// Functions of complex numbers (Abramowitz and Stegun, chapter 4), including real-valued ones.
#include <cmath>
#include <numbers>

#include "ops/complex/real_call.h"
#include "ops/formulas/complex.h"
#include "ops/formulas/numeric.h"

namespace onnx_native::ops {
namespace {

using Function = Complex (*)(Builder&, const Complex&);

Complex times_real(Builder& b, const Complex& z, double factor) {
  return mul(b, z, {b.like(z.real, factor)});
}

Complex plus(Builder& b, const Complex& z, double number) {
  return {b.Add(z.real, b.like(z.real, number)), z.imaginary};
}

// Returns i * z.
Complex turned(Builder& b, const Complex& z) { return {b.Neg(z.imaginary), z.real}; }
// Returns -i * z.
Complex turned_back(Builder& b, const Complex& z) { return {z.imaginary, b.Neg(z.real)}; }

Value angle(Builder& b, const Complex& z) { return atan2(b, z.imaginary, z.real); }

Complex exp(Builder& b, const Complex& z) { return polar(b, b.Exp(z.real), z.imaginary); }

Complex log(Builder& b, const Complex& z) { return {b.Log(absolute(b, z)), angle(b, z)}; }

Complex square(Builder& b, const Complex& z) { return mul(b, z, z); }

Complex rsqrt(Builder& b, const Complex& z) { return reciprocal(b, sqrt(b, z)); }

Complex sinh(Builder& b, const Complex& z) {
  return {b.Mul(b.op("Sinh", {z.real}), b.Cos(z.imaginary)),
          b.Mul(b.op("Cosh", {z.real}), b.Sin(z.imaginary))};
}

Complex cosh(Builder& b, const Complex& z) {
  return {b.Mul(b.op("Cosh", {z.real}), b.Cos(z.imaginary)),
          b.Mul(b.op("Sinh", {z.real}), b.Sin(z.imaginary))};
}

// (tanh x + i tan y) / (1 + i tanh x tan y)
Complex tanh(Builder& b, const Complex& z) {
  const Value x = b.Tanh(z.real);
  const Value y = b.op("Tan", {z.imaginary});
  return div(b, {x, y}, {b.full(x->dtype, 1, x->known_shape()), b.Mul(x, y)});
}

Complex sin(Builder& b, const Complex& z) { return turned_back(b, sinh(b, turned(b, z))); }
Complex cos(Builder& b, const Complex& z) { return cosh(b, turned(b, z)); }
Complex tan(Builder& b, const Complex& z) { return turned_back(b, tanh(b, turned(b, z))); }

// --- Inverse functions (W. Kahan, Branch Cuts for Complex Elementary Functions, 1987).

Value arsinh(Builder& b, Value x) { return b.op("Asinh", {x}); }

Complex one_plus(Builder& b, const Complex& z) { return plus(b, z, 1); }
Complex one_minus(Builder& b, const Complex& z) { return plus(b, negated(b, z), 1); }

Complex asin(Builder& b, const Complex& z) {
  const Complex minus = sqrt(b, one_minus(b, z));
  const Complex both = sqrt(b, one_plus(b, z));
  return {atan2(b, z.real, mul(b, minus, both).real),
          arsinh(b, mul(b, conjugate(b, minus), both).imaginary)};
}

Complex acos(Builder& b, const Complex& z) {
  const Complex minus = sqrt(b, one_minus(b, z));
  const Complex both = sqrt(b, one_plus(b, z));
  return {b.Mul(b.like(z.real, 2), atan2(b, minus.real, both.real)),
          arsinh(b, mul(b, conjugate(b, both), minus).imaginary)};
}

Complex acosh(Builder& b, const Complex& z) {
  const Complex minus = sqrt(b, plus(b, z, -1));
  const Complex both = sqrt(b, one_plus(b, z));
  return {arsinh(b, mul(b, conjugate(b, minus), both).real),
          b.Mul(b.like(z.real, 2), atan2(b, minus.imaginary, both.real))};
}

Complex asinh(Builder& b, const Complex& z) { return turned_back(b, asin(b, turned(b, z))); }

// ((log1p(4x / ((1 - x)^2 + y^2))) / 4, atan2(2y, (1 - x)(1 + x) - y^2) / 2)
Complex atanh(Builder& b, const Complex& z) {
  const auto number = [&](double value) { return b.like(z.real, value); };
  const Value rest = b.Sub(number(1), z.real);
  const Value square = b.Mul(z.imaginary, z.imaginary);
  const Value ratio = b.Div(b.Mul(number(4), z.real), b.Add(b.Mul(rest, rest), square));
  const Value across = b.Sub(b.Mul(rest, b.Add(number(1), z.real)), square);
  return {b.Mul(number(0.25), log1p(b, ratio)),
          b.Mul(number(0.5), atan2(b, b.Mul(number(2), z.imaginary), across))};
}

Complex atan(Builder& b, const Complex& z) { return turned_back(b, atanh(b, turned(b, z))); }

// --- Other functions.

// (expm1(x) cos y - 2 sin(y / 2)^2, exp(x) sin y)
Complex complex_expm1(Builder& b, const Complex& z) {
  const Value half = b.Sin(b.Mul(z.imaginary, b.like(z.real, 0.5)));
  const Value turn = b.Mul(b.like(z.real, 2), b.Mul(half, half));
  return {b.Sub(b.Mul(ops::expm1(b, z.real), b.Cos(z.imaginary)), turn),
          b.Mul(b.Exp(z.real), b.Sin(z.imaginary))};
}

Complex sigmoid(Builder& b, const Complex& z) {
  return reciprocal(b, plus(b, exp(b, negated(b, z)), 1));
}

// Returns z / |z|, or 0 if z is 0.
Complex sgn(Builder& b, const Complex& z) {
  const Value length = absolute(b, z);
  return div(b, z, {b.where(b.Equal(length, b.like(length, 0)), b.like(length, 1), length)});
}

void def_functions(OpTable& ops) {
  const std::initializer_list<std::pair<std::string_view, Function>> functions{
      {"aten::exp", exp},
      {"aten::exp2",
       [](Builder& b, const Complex& z) { return exp(b, times_real(b, z, std::numbers::ln2)); }},
      {"aten::expm1", complex_expm1},
      {"aten::log", log},
      {"aten::log2",
       [](Builder& b, const Complex& z) { return times_real(b, log(b, z), std::numbers::log2e); }},
      {"aten::log10",
       [](Builder& b, const Complex& z) { return times_real(b, log(b, z), std::numbers::log10e); }},
      {"aten::log1p", [](Builder& b, const Complex& z) { return log(b, plus(b, z, 1)); }},
      {"aten::sqrt", sqrt},
      {"aten::rsqrt", rsqrt},
      {"aten::square", square},
      {"aten::reciprocal", reciprocal},
      {"aten::sin", sin},
      {"aten::cos", cos},
      {"aten::tan", tan},
      {"aten::asin", asin},
      {"aten::acos", acos},
      {"aten::atan", atan},
      {"aten::asinh", asinh},
      {"aten::acosh", acosh},
      {"aten::atanh", atanh},
      {"aten::sinh", sinh},
      {"aten::cosh", cosh},
      {"aten::tanh", tanh},
      {"aten::sigmoid", sigmoid},
      {"aten::silu", [](Builder& b, const Complex& z) { return mul(b, z, sigmoid(b, z)); }},
      {"aten::sgn", sgn}};
  for (const auto& [op, function] : functions) {
    ops.def(op, Key::complex,
            [f = function](Builder& b, Value self) { return join(b, f(b, split(b, self))); });
  }
  for (std::string_view op : {"aten::neg", "aten::negative"})
    ops.def(op, Key::complex, [](Builder& b, Value self) { return b.Neg(self); });
  ops.def("aten::abs", Key::complex, [](Builder& b, Value self) { return absolute(b, self); });
  ops.def("aten::angle", Key::complex,
          [](Builder& b, Value self) { return angle(b, split(b, self)); });
  ops.def("aten::isreal", Key::complex,
          [](Builder& b, Value self) { return b.Equal(part(b, self, true), b.like(self, 0)); });
}

// exp(exponent * log(base)). 0 to a nonzero power is 0; any base to the power 0 is 1.
Complex power(Builder& b, const Complex& base, const Complex& exponent) {
  const Value zero = b.like(base.real, 0);
  const auto is_zero = [&](const Complex& z) {
    const Value real = b.Equal(z.real, zero);
    return z.imaginary ? b.And(real, b.Equal(z.imaginary, zero)) : real;
  };
  const Complex full{base.real, imaginary_part(b, base)};
  const Complex result = exp(b, mul(b, exponent, log(b, full)));
  const Value of_zero = is_zero(full);
  const Value to_zero = is_zero(exponent);
  const auto chosen = [&](Value part, double at_zero) {
    return b.where(to_zero, b.like(part, at_zero), b.where(of_zero, zero, part));
  };
  return {chosen(result.real, 1), chosen(result.imaginary, 0)};
}

// Exponentiates by squaring; `exponent` must not be 0.
Complex whole_power(Builder& b, Complex base, int64_t exponent) {
  Complex result;
  for (int64_t n = std::abs(exponent); n > 0; n /= 2) {
    if (n % 2 == 1) result = result.real ? mul(b, result, base) : base;
    if (n > 1) base = square(b, base);
  }
  return exponent < 0 ? reciprocal(b, result) : result;
}

Value pow(Builder& b, Ignored, Ignored, const Call& call) {
  constexpr double kLargestSquared = 16;
  const DType part = part_dtype(call);
  const Complex base = complex_argument(call, 0, part);
  if (is_literal(call, 1) && !is_complex(call.argument(1))) {
    const double exponent = call.number(1);
    if (exponent == 0.5) return join(b, sqrt(b, base));
    if (exponent == std::trunc(exponent) && exponent != 0 && std::abs(exponent) <= kLargestSquared)
      return join(b, whole_power(b, base, static_cast<int64_t>(exponent)));
  }
  return join(b, power(b, base, complex_argument(call, 1, part)));
}

// self + value * (x op y)
template <auto kOperation>
Value add_scaled(Builder& b, Ignored, Ignored, Ignored, Ignored, const Call& call) {
  const DType part = part_dtype(call);
  const auto argument = [&](size_t i) { return complex_argument(call, i, part); };
  const Complex product = kOperation(b, argument(1), argument(2));
  return join(b, add(b, argument(0), mul(b, argument(3), product)));
}

void define_through(OpTable& ops, std::string_view op, Value (*make)(Builder&, Value pairs)) {
  const Lowering& dense = dense_lowering(ops, op);
  const auto run = [dense, make](const Call& call) { return run_through(call, dense, make); };
  ops.add(op, Key::complex, {.run = run, .parameters = dense.parameters});
}

Value is_not_zero(Builder& b, Value pairs) { return real_cast(b, pairs, DType::boolean); }

// Defines an operator as `onnx_op` of its results for the real and the imaginary parts.
void define_combined(OpTable& ops, std::string_view op, std::string_view onnx_op) {
  const Lowering& dense = dense_lowering(ops, op);
  const auto run = [dense, onnx_op](const Call& call) -> Results {
    const Value real = run_on_part(call, dense, false).at(0).value;
    return {call.builder().op(onnx_op, {real, run_on_part(call, dense, true).at(0).value})};
  };
  ops.add(op, Key::complex, {.run = run, .parameters = dense.parameters});
}

// Defines var_mean or std_mean through var_mean of the parts, whose variances add up.
void define_moments(OpTable& ops, const std::string& name, bool deviation) {
  for (const std::string overload : {"", ".dim", ".correction"}) {
    const Lowering& dense = dense_lowering(ops, "aten::var_mean" + overload);
    const auto run = [dense, deviation](const Call& call) -> Results {
      Builder& b = call.builder();
      const Results real = run_on_part(call, dense, false);
      const Results imaginary = run_on_part(call, dense, true);
      const Value variance = b.Add(real.at(0).value, imaginary.at(0).value);
      return {deviation ? b.Sqrt(variance) : variance,
              join(b, {real.at(1).value, imaginary.at(1).value})};
    };
    ops.add(name + overload, Key::complex, {.run = run, .parameters = dense.parameters});
  }
}

}  // namespace

void register_complex_functions(OpTable& ops) {
  def_functions(ops);
  for (std::string_view op :
       {"aten::pow.Tensor_Scalar", "aten::pow.Tensor_Tensor", "aten::pow.Scalar"})
    ops.def(op, Key::complex, pow);
  ops.def("aten::addcmul", Key::complex, add_scaled<mul>);
  ops.def("aten::addcdiv", Key::complex, add_scaled<div>);
  for (std::string_view op :
       {"aten::linalg_vector_norm", "aten::norm.Scalar", "aten::norm.ScalarOpt_dim"})
    define_through(ops, op, absolute);
  for (std::string_view op :
       {"aten::any", "aten::any.dim", "aten::all", "aten::all.dim", "aten::logical_not",
        "aten::logical_and", "aten::logical_or", "aten::logical_xor", "aten::count_nonzero",
        "aten::count_nonzero.dim_IntList", "aten::nonzero", "aten::nonzero_static"})
    define_through(ops, op, is_not_zero);
  define_combined(ops, "aten::isnan", "Or");
  define_combined(ops, "aten::isinf", "Or");
  define_combined(ops, "aten::isfinite", "And");
  for (std::string_view op : {"aten::var", "aten::var.dim", "aten::var.correction"})
    define_combined(ops, op, "Add");
  define_moments(ops, "aten::var_mean", /*deviation=*/false);
  define_moments(ops, "aten::std_mean", /*deviation=*/true);
}

}  // namespace onnx_native::ops
