#include "ops/formulas/gamma.h"

#include <array>
#include <cmath>
#include <limits>
#include <numbers>

#include "ops/formulas/axes.h"
#include "ops/formulas/series.h"

namespace onnx_native::ops {
namespace {

// Returns log(gamma(x)) for x >= 0.5 by Lanczos' sum with g = 7 (Numerical Recipes, section 6.1).
Value lanczos(Builder& b, Value x) {
  static constexpr std::array<double, 9> kTerms = {
      0.99999999999980993,  676.5203681218851,     -1259.1392167224028,
      771.32342877765313,   -176.61502916214059,   12.507343278686905,
      -0.13857109526572012, 9.9843695780195716e-6, 1.5056327351493116e-7};
  const Value y = b.Sub(x, f64(b, 1));
  Value sum = f64(b, kTerms[0]);
  for (size_t i = 1; i < kTerms.size(); ++i) {
    sum = b.Add(sum, b.Div(f64(b, kTerms[i]), b.Add(y, f64(b, static_cast<double>(i)))));
  }
  const Value t = b.Add(y, f64(b, 7.5));
  const Value power = b.Sub(b.Mul(b.Add(y, f64(b, 0.5)), b.Log(t)), t);
  const Value result =
      b.Add(b.Add(power, b.Log(sum)), f64(b, 0.5 * std::log(2 * std::numbers::pi)));
  // At infinity the formula is infinity minus infinity; the result is infinity.
  const Value infinite = b.op("IsInf", {x});
  return b.where(infinite, b.Abs(x), result);
}

// Returns log(gamma(x)) for 0.5 <= x < 3, accurate around its zeros 1 and 2, where Lanczos' sum
// cancels: by a rational function for arguments around 2 to 3 (Cephes, lgam), from which the
// recurrence leads to smaller ones.
Value around_zeros(Builder& b, Value x) {
  static constexpr std::array<double, 6> kTop = {-853555.66424576542, -1721737.0082083966,
                                                 -1162370.9749276231, -331612.99273887117,
                                                 -38801.631513463784, -1378.2515256912086};
  static constexpr std::array<double, 7> kBottom = {-2018891.4143353277,
                                                    -2532523.0717758294,
                                                    -1139334.4436798252,
                                                    -220528.59055385445,
                                                    -17064.210665188115,
                                                    -351.81570143652345,
                                                    1};
  const Value two_steps = b.Less(x, f64(b, 0.9)), one_step = b.Less(x, f64(b, 1.9));
  const Value z = b.where(two_steps, x, b.Sub(x, b.where(one_step, f64(b, 1), f64(b, 2))));
  const Value product =
      b.where(two_steps, b.Mul(x, b.Add(x, f64(b, 1))), b.where(one_step, x, f64(b, 1)));
  return b.Sub(b.Mul(z, ratio(b, z, kTop, kBottom)), b.Log(product));
}

// Returns sin(pi x) with the argument reduced to [-0.5, 0.5]; exact zeros at integers.
Value sin_pi(Builder& b, Value x) {
  const Value nearest = b.Round(x);
  const Value reduced = b.Sub(x, nearest);
  const Value odd = b.Sub(nearest, b.Mul(f64(b, 2), b.Floor(b.Mul(nearest, f64(b, 0.5)))));
  const Value sign = b.Sub(f64(b, 1), b.Mul(f64(b, 2), odd));
  return b.Mul(sign, b.Sin(b.Mul(reduced, f64(b, std::numbers::pi))));
}

}  // namespace

Value log_gamma(Builder& b, Value x) {
  const Value low = b.Less(x, f64(b, 0.5));
  const Value mirrored = b.where(low, b.Sub(f64(b, 1), x), x);
  const Value upper =
      b.where(b.Less(mirrored, f64(b, 3)), around_zeros(b, mirrored), lanczos(b, mirrored));
  // Reflection: log(pi / |sin(pi x)|) - log(gamma(1 - x)); infinite at the poles.
  const Value reflected = b.Sub(b.Log(b.Div(f64(b, std::numbers::pi), b.Abs(sin_pi(b, x)))), upper);
  const Value result = b.where(low, reflected, upper);
  return b.where(b.op("IsInf", {x}), b.Abs(x), result);
}

namespace {

// Returns psi(x) for x >= 0.5: the recurrence up to x + 8, then the asymptotic series.
Value digamma_upper(Builder& b, Value x) {
  static constexpr std::array<double, 6> kSeries = {1.0 / 12,   -1.0 / 120, 1.0 / 252,
                                                    -1.0 / 240, 5.0 / 660,  -691.0 / 32760};
  Value sum = b.Reciprocal(x);
  for (int i = 1; i < 8; ++i) {
    sum = b.Add(sum, b.Reciprocal(b.Add(x, f64(b, i))));
  }
  const Value y = b.Add(x, f64(b, 8));
  const Value inverse_square = b.Reciprocal(b.Mul(y, y));
  const Value series = polynomial(b, inverse_square, kSeries);
  const Value asymptotic =
      b.Sub(b.Sub(b.Log(y), b.Div(f64(b, 0.5), y)), b.Mul(series, inverse_square));
  return b.Sub(asymptotic, sum);
}

}  // namespace

Value digamma(Builder& b, Value x) {
  const Value low = b.Less(x, f64(b, 0.5));
  const Value mirrored = b.where(low, b.Sub(f64(b, 1), x), x);
  const Value upper = digamma_upper(b, mirrored);
  // Reflection: psi(1 - x) - pi cot(pi x), with cot = cos / sin of the reduced argument.
  const Value angle = b.Mul(b.Sub(x, b.Round(x)), f64(b, std::numbers::pi));
  const Value cotangent = b.Div(b.Cos(angle), b.Sin(angle));
  const Value reflected = b.Sub(upper, b.Mul(f64(b, std::numbers::pi), cotangent));
  Value result = b.where(low, reflected, upper);
  // NaN at negative integers, minus infinity at 0 and plus infinity at -0.0, matching ATen.
  const double infinity = std::numeric_limits<double>::infinity();
  const Value is_integer = b.Equal(x, b.Round(x));
  const Value pole = b.And(b.Less(x, f64(b, 0)), is_integer);
  result = b.where(pole, f64(b, std::numeric_limits<double>::quiet_NaN()), result);
  const Value at_zero = b.where(sign_bit(b, x), f64(b, infinity), f64(b, -infinity));
  return b.where(b.Equal(x, f64(b, 0)), at_zero, result);
}

}  // namespace onnx_native::ops
