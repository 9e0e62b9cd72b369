// Hurwitz's zeta function, polygamma, and the incomplete gamma functions.
#include <limits>
#include <numbers>

#include "ops/formulas/gamma.h"
#include "ops/formulas/loop.h"
#include "ops/formulas/series.h"
#include "ops/formulas/view.h"

namespace onnx_native::ops {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// Returns zeta(s, q) for s > 1 and q > 0: nine terms, and the Euler-Maclaurin sum of the others
// (DLMF 25.11.5 with 2.10.1).
Value hurwitz(Builder& b, Value s, Value q) {
  static constexpr int kTerms = 9;
  // Bernoulli numbers B(2j) over (2j)!.
  static constexpr double kBernoulli[] = {1.0 / 12,       -1.0 / 720,     1.0 / 30240,
                                          -1.0 / 1209600, 1.0 / 47900160, -691.0 / 1307674368000};
  const Value shifts = b.cast(b.range(kTerms), DType::f64);
  const Value exponent = b.Neg(s);
  const Value terms = b.Pow(b.Add(b.unsqueeze(q, {-1}), shifts), b.unsqueeze(exponent, {-1}));
  const Value sum = b.reduce("ReduceSum", terms, {-1}, false);

  const Value a = b.Add(q, f64(b, kTerms));
  const Value inverse = b.Reciprocal(a);
  const Value inverse_square = b.Mul(inverse, inverse);
  const auto shifted = [&](int k) { return k == 0 ? s : b.Add(s, f64(b, k)); };
  Value series = f64(b, kBernoulli[5]);
  for (int j = 4; j >= 0; --j) {
    const Value rising = b.Mul(shifted(2 * j + 1), shifted(2 * j + 2));
    series = b.Add(b.Mul(series, b.Mul(rising, inverse_square)), f64(b, kBernoulli[j]));
  }
  series = b.Add(b.Mul(series, b.Mul(s, inverse)), f64(b, 0.5));
  const Value less_one = b.Sub(s, f64(b, 1));
  const Value integral = b.Div(b.Pow(a, b.Neg(less_one)), less_one);
  return b.Add(b.Add(sum, integral), b.Mul(b.Pow(a, exponent), series));
}

// Returns zeta(s, q) for s > 1. A negative q requires an integer s: the terms of negative numbers
// are, up to their sign, those of zeta(s, 1 - f) - zeta(s, 1 - q), where f is the fraction of q.
Value zeta_above_one(Builder& b, Value s, Value q) {
  const Value zero = f64(b, 0);
  const Value one = f64(b, 1);
  const Value floor = b.Floor(q);
  const Value fraction = b.Sub(q, floor);
  const Value positive = b.Greater(q, zero);
  const auto row = [&](Value x) { return b.unsqueeze(x, {0}); };
  const Value points = b.concat(
      {row(b.where(positive, q, fraction)), row(b.Sub(one, fraction)), row(b.Sub(one, q))}, 0);
  const Value values = hurwitz(b, s, points);
  const Value first = b.select(values, 0, 0);
  const Value others = b.Sub(b.select(values, 0, 1), b.select(values, 0, 2));
  const Value odd = b.op("Mod", {s, f64(b, 2)}, {{"fmod", 1}});
  const Value sign = b.Sub(one, b.Mul(f64(b, 2), odd));
  const Value below =
      b.where(b.Equal(s, b.Floor(s)), b.Add(first, b.Mul(sign, others)), f64(b, kNan));
  const Value pole = b.And(b.Equal(q, floor), b.Not(positive));
  const Value result = b.where(positive, first, b.where(pole, f64(b, kInfinity), below));
  return b.where(b.Equal(q, f64(b, kInfinity)), f64(b, kNan), result);
}

Value zeta(Builder& b, Value s, Value q) {
  const Values both = broadcast_all(b, {s, q});
  const Value one = f64(b, 1);
  const Value result = zeta_above_one(b, both[0], both[1]);
  const Value defined = b.where(b.Less(s, one), f64(b, kNan), result);
  return b.where(b.Equal(s, one), f64(b, kInfinity), defined);
}

// psi'(x) = zeta(2, x), reflected below 1/2. Computes the sine in the tensor's dtype to match ATen:
// near the poles, the rounding error of pi x determines the result.
Value trigamma(Builder& b, Value self) {
  const Value narrow = b.cast(self, accumulation_dtype(self->dtype));
  const Value sine = b.Sin(b.Mul(narrow, b.like(narrow, std::numbers::pi)));
  const Value square = b.like(narrow, std::numbers::pi * std::numbers::pi);
  const Value reflection = b.cast(b.Div(square, b.Mul(sine, sine)), DType::f64);
  const Value x = b.cast(self, DType::f64);
  const Value low = b.Less(x, f64(b, 0.5));
  const Value upper = hurwitz(b, f64(b, 2), b.where(low, b.Sub(f64(b, 1), x), x));
  return b.cast(b.where(low, b.Sub(reflection, upper), upper), self->dtype);
}

Value polygamma(Builder& b, int64_t n, Value self) {
  b.check(n >= 0, "the order must not be negative, got ", n);
  if (n == 0) return in_f64(b, digamma, self);
  if (n == 1) return trigamma(b, self);
  const double order = static_cast<double>(n);
  const double factor = (n % 2 == 0 ? -1 : 1) * std::tgamma(order + 1);
  const auto formula = [&](Builder& in, Value x) {
    return in.Mul(f64(in, factor), zeta_above_one(in, f64(in, order + 1), x));
  };
  return in_f64(b, formula, self);
}

constexpr double kPrecision = 1e-13;
constexpr int64_t kMostSteps = 1000000;

// Returns the sum of x^n / ((a + 1) ... (a + n)), DLMF 8.7.1; converges fast for x < a + 1.
Value lower_series(Builder& b, Value a, Value x) {
  const Value one = b.expand(f64(b, 1), x->known_shape());
  const auto step = [&](Value iteration, const Values& states) {
    const Value n = b.Add(b.cast(iteration, DType::f64), f64(b, 1));
    const Value term = b.Mul(states[0], b.Div(x, b.Add(a, n)));
    const Value sum = b.Add(states[1], term);
    return Values{any_true(b, b.Greater(term, b.Mul(sum, f64(b, kPrecision)))), term, sum};
  };
  return loop_while(b, b.i64(kMostSteps), {one, one}, step)[1];
}

// Evaluates the continued fraction DLMF 8.9.2, contracted to its even part, by Lentz's method
// (Numerical Recipes, 5.2 and 6.2); converges fast for x > a + 1.
Value upper_fraction(Builder& b, Value a, Value x) {
  const Value one = f64(b, 1);
  const Value start = b.Add(b.Sub(x, a), one);
  const Value d = b.Reciprocal(start);
  const Value c = b.expand(f64(b, 1e300), x->known_shape());
  const auto step = [&](Value iteration, const Values& states) {
    const Value n = b.Add(b.cast(iteration, DType::f64), one);
    const Value numerator = b.Mul(n, b.Sub(a, n));
    const Value denominator = b.Add(start, b.Mul(n, f64(b, 2)));
    const Value next_d = b.Reciprocal(b.Add(b.Mul(numerator, states[0]), denominator));
    const Value next_c = b.Add(b.Div(numerator, states[1]), denominator);
    const Value change = b.Mul(next_c, next_d);
    const Value off = b.Greater(b.Abs(b.Sub(change, one)), f64(b, kPrecision));
    return Values{any_true(b, off), next_d, next_c, b.Mul(states[2], change)};
  };
  return loop_while(b, b.i64(kMostSteps), {d, c, d}, step)[2];
}

// Returns P(a, x), or Q(a, x) = 1 - P(a, x).
Value incomplete_gamma(Builder& b, Value a, Value x, bool upper) {
  const Values both = broadcast_all(b, {a, x});
  a = both[0];
  x = both[1];
  const Value zero = f64(b, 0);
  const Value one = f64(b, 1);
  const Value inside = b.And(b.Greater(a, zero), b.Greater(x, zero));
  const Value near = b.And(inside, b.Less(x, b.Add(a, one)));
  const Value far = b.Xor(inside, near);
  const Value sum = lower_series(b, b.where(near, a, one), b.where(near, x, zero));
  // Other elements use Q(1, 2), whose fraction ends at once.
  const Value fraction = upper_fraction(b, b.where(far, a, one), b.where(far, x, f64(b, 2)));
  const Value power = b.Exp(b.Sub(b.Sub(b.Mul(a, b.Log(x)), x), log_gamma(b, a)));
  const Value p = b.Mul(b.Div(power, a), sum);
  const Value q = b.Mul(power, fraction);
  Value result = upper ? b.where(near, b.Sub(one, p), q) : b.where(near, p, b.Sub(one, q));

  const Value infinity = f64(b, kInfinity);
  const Value nan = f64(b, kNan);
  const Value least = upper ? one : zero;
  const Value most = upper ? zero : one;
  const Value x_infinite = b.Equal(x, infinity);
  result = b.where(x_infinite, most, result);
  result = b.where(b.Equal(a, infinity), b.where(x_infinite, nan, least), result);
  result = b.where(b.Equal(x, zero), least, result);
  result = b.where(b.Equal(a, zero), b.where(b.Greater(x, zero), most, nan), result);
  return b.where(b.Or(b.Less(a, zero), b.Less(x, zero)), nan, result);
}

}  // namespace

void register_special_gamma(OpTable& ops) {
  const auto to_float = Promote::int_to_float;
  ops.def(
      {"aten::special_zeta", "aten::special_zeta.self_scalar", "aten::special_zeta.other_scalar"},
      to_float, [](Builder& b, Value self, Value other) { return in_f64(b, zeta, self, other); });
  ops.def({"aten::special_polygamma"}, to_float, polygamma);
  ops.def("aten::polygamma", to_float, polygamma);
  const auto incomplete = [](bool upper) {
    return [upper](Builder& b, Value self, Value other) {
      const auto formula = [upper](Builder& in, Value a, Value x) {
        return incomplete_gamma(in, a, x, upper);
      };
      return in_f64(b, formula, self, other);
    };
  };
  ops.def({"aten::igamma", "aten::special_gammainc"}, to_float, incomplete(false));
  ops.def({"aten::igammac", "aten::special_gammaincc"}, to_float, incomplete(true));
}

}  // namespace onnx_native::ops
