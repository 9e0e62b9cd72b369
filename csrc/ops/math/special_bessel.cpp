// Bessel and related functions: polynomials in x^2 near zero, Hankel's expansions (DLMF 10.17 and
// 10.40) for large x. generate_fits.py computes the coefficients.
#include <cmath>
#include <limits>
#include <numbers>

#include "ops/formulas/series.h"

namespace onnx_native::ops {
namespace {

using std::numbers::pi;

Value by_factor(Builder& b, Value x, double factor) { return b.Mul(x, f64(b, factor)); }

// The fitted coefficients of one order.
struct Bessel {
  bool odd;
  std::span<const double> j, y, cosine, sine, i, i_large, k, k_large_top, k_large_bottom;
};

const Bessel kOrder0 = {
    .odd = false,
    .j = fits::kJ0,
    .y = fits::kY0,
    .cosine = fits::kJCosine0,
    .sine = fits::kJSine0,
    .i = fits::kI0,
    .i_large = fits::kILarge0,
    .k = fits::kK0,
    .k_large_top = fits::kKLarge0Top,
    .k_large_bottom = fits::kKLarge0Bottom,
};
const Bessel kOrder1 = {
    .odd = true,
    .j = fits::kJ1,
    .y = fits::kY1,
    .cosine = fits::kJCosine1,
    .sine = fits::kJSine1,
    .i = fits::kI1,
    .i_large = fits::kILarge1,
    .k = fits::kK1,
    .k_large_top = fits::kKLarge1Top,
    .k_large_bottom = fits::kKLarge1Bottom,
};

// Evaluates a polynomial in x^2, times x if the function is odd.
Value near_zero(Builder& b, Value x, std::span<const double> coefficients, bool odd) {
  const Value even = polynomial(b, b.Mul(x, x), coefficients);
  return odd ? b.Mul(x, even) : even;
}

// Returns sqrt(2) (a cos(x - p) + c sin(x - p)); the phase p is pi/4, or 3 pi/4 for odd orders.
Value wave(Builder& b, Value x, Value a, Value c, bool odd) {
  const Value cosine = b.Cos(x);
  const Value sine = b.Sin(x);
  const Value plus = b.Add(cosine, sine);
  const Value minus = b.Sub(sine, cosine);
  // sqrt(2) cos(x - pi/4) = cos + sin and sqrt(2) sin(x - pi/4) = sin - cos. Another quarter turn
  // maps (cos, sin) to (sin, -cos).
  const Value first = odd ? minus : plus;
  const Value second = odd ? b.Neg(plus) : minus;
  return b.Add(b.Mul(a, first), b.Mul(c, second));
}

// Returns J, or Y, by Hankel's expansion for x > 8 (DLMF 10.17.3 and 10.17.4).
Value hankel(Builder& b, Value x, const Bessel& order, bool second_kind) {
  const Value t = b.Div(f64(b, 8), x);
  const Value square = b.Mul(t, t);
  const Value p = polynomial(b, square, order.cosine);
  const Value q = b.Mul(t, polynomial(b, square, order.sine));
  const Value sum = second_kind ? wave(b, x, q, p, order.odd) : wave(b, x, p, b.Neg(q), order.odd);
  return b.Div(sum, b.Sqrt(by_factor(b, x, pi)));
}

Value bessel_j(Builder& b, Value x, const Bessel& order) {
  const Value size = b.Abs(x);
  const Value near = near_zero(b, x, order.j, order.odd);
  Value far = hankel(b, size, order, false);
  if (order.odd) far = b.Mul(b.Sign(x), far);
  return b.where(b.LessOrEqual(size, f64(b, 8)), near, far);
}

// DLMF 10.8.1 up to 8: (2/pi) (log(x) J(x) - 1/x) plus a polynomial; only order 1 has the pole.
Value bessel_y(Builder& b, Value x, const Bessel& order) {
  Value singular = b.Mul(b.Log(x), near_zero(b, x, order.j, order.odd));
  if (order.odd) singular = b.Sub(singular, b.Reciprocal(x));
  const Value near = b.Add(by_factor(b, singular, 2 / pi), near_zero(b, x, order.y, order.odd));
  const Value result = b.where(b.Greater(x, f64(b, 8)), hankel(b, x, order, true), near);
  if (!order.odd) return result;
  return b.where(b.Equal(x, f64(b, 0)), f64(b, -kInfinity), result);
}

enum class Scaled { no, yes };

// DLMF 10.40.1 for |x| > 8. The scaled function is multiplied by e^-|x|.
Value bessel_i(Builder& b, Value x, const Bessel& order, Scaled scaled) {
  const Value size = b.Abs(x);
  Value near = near_zero(b, x, order.i, order.odd);
  if (scaled == Scaled::yes) near = b.Mul(near, b.Exp(b.Neg(size)));
  const Value t = b.Div(f64(b, 8), size);
  Value far = b.Div(polynomial(b, t, order.i_large), b.Sqrt(size));
  if (scaled == Scaled::no) far = b.Mul(b.Exp(size), far);
  if (order.odd) far = b.Mul(b.Sign(x), far);
  return b.where(b.LessOrEqual(size, f64(b, 8)), near, far);
}

// DLMF 10.31.1, and 10.40.2 for x > 2. The scaled function is multiplied by e^x.
Value bessel_k(Builder& b, Value x, const Bessel& order, Scaled scaled) {
  const Value i = near_zero(b, x, order.i, order.odd);
  const Value logarithm = b.Mul(b.Log(by_factor(b, x, 0.5)), i);
  const Value regular = polynomial(b, b.Mul(x, x), order.k);
  Value near = order.odd ? b.Add(logarithm, b.Div(regular, x)) : b.Sub(regular, logarithm);
  if (order.odd) near = b.where(b.Equal(x, f64(b, 0)), f64(b, kInfinity), near);
  if (scaled == Scaled::yes) near = b.Mul(near, b.Exp(x));
  const Value t = b.Div(f64(b, 2), x);
  Value far = b.Div(ratio(b, t, order.k_large_top, order.k_large_bottom), b.Sqrt(x));
  if (scaled == Scaled::no) far = b.Mul(far, b.Exp(b.Neg(x)));
  return b.where(b.Greater(x, f64(b, 2)), far, near);
}

// Ai with zeta = 2/3 |x|^(3/2): DLMF 9.7.5 above 2, 9.7.9 below -3, a fitted ratio between.
Value airy(Builder& b, Value x) {
  const Value size = b.Abs(x);
  const Value root = b.Sqrt(size);
  const Value zeta = by_factor(b, b.Mul(size, root), 2.0 / 3);
  const Value amplitude = by_factor(b, b.Sqrt(root), std::sqrt(pi));
  const double high = 2.0 / 3 * std::pow(2, 1.5);
  const Value t = b.Div(f64(b, high), zeta);
  const Value decay =
      b.Mul(b.Exp(b.Neg(zeta)), ratio(b, t, fits::kAiryDecayTop, fits::kAiryDecayBottom));
  const Value above = b.Div(by_factor(b, decay, 0.5), amplitude);
  const double low = 2.0 / 3 * std::pow(3, 1.5);
  const Value u = b.Div(f64(b, low), zeta);
  const Value square = b.Mul(u, u);
  const Value cosine = ratio(b, square, fits::kAiryCosineTop, fits::kAiryCosineBottom);
  const Value sine = b.Mul(u, ratio(b, square, fits::kAirySineTop, fits::kAirySineBottom));
  const Value below =
      b.Div(by_factor(b, wave(b, zeta, cosine, sine, false), 1 / std::numbers::sqrt2), amplitude);
  const Value middle = ratio(b, x, fits::kAiryTop, fits::kAiryBottom);
  const Value result =
      b.where(b.Greater(x, f64(b, 2)), above, b.where(b.Less(x, f64(b, -3)), below, middle));
  // ATen returns NaN at infinity.
  return b.where(b.Equal(x, f64(b, kInfinity)), f64(b, std::numeric_limits<double>::quiet_NaN()),
                 result);
}

// Returns sin(x) / x; 1 at 0 and 0 at infinity.
Value spherical_bessel_j0(Builder& b, Value x) {
  const Value result = b.Div(b.Sin(x), x);
  const Value finite = b.where(b.op("IsInf", {x}), f64(b, 0), result);
  return b.where(b.Equal(x, f64(b, 0)), f64(b, 1), finite);
}

}  // namespace

void register_special_bessel(OpTable& ops) {
  const auto first = [](const Bessel& order) {
    return [&order](Builder& b, Value x) { return bessel_j(b, x, order); };
  };
  const auto second = [](const Bessel& order) {
    return [&order](Builder& b, Value x) { return bessel_y(b, x, order); };
  };
  const auto modified_first = [](const Bessel& order, Scaled scaled) {
    return [&order, scaled](Builder& b, Value x) { return bessel_i(b, x, order, scaled); };
  };
  const auto modified_second = [](const Bessel& order, Scaled scaled) {
    return [&order, scaled](Builder& b, Value x) { return bessel_k(b, x, order, scaled); };
  };
  def_in_f64(ops, {"aten::special_bessel_j0"}, first(kOrder0));
  def_in_f64(ops, {"aten::special_bessel_j1"}, first(kOrder1));
  def_in_f64(ops, {"aten::special_bessel_y0"}, second(kOrder0));
  def_in_f64(ops, {"aten::special_bessel_y1"}, second(kOrder1));
  def_in_f64(ops, {"aten::i0", "aten::special_i0", "aten::special_modified_bessel_i0"},
             modified_first(kOrder0, Scaled::no));
  def_in_f64(ops, {"aten::special_i1", "aten::special_modified_bessel_i1"},
             modified_first(kOrder1, Scaled::no));
  def_in_f64(ops, {"aten::special_i0e"}, modified_first(kOrder0, Scaled::yes));
  def_in_f64(ops, {"aten::special_i1e"}, modified_first(kOrder1, Scaled::yes));
  def_in_f64(ops, {"aten::special_modified_bessel_k0"}, modified_second(kOrder0, Scaled::no));
  def_in_f64(ops, {"aten::special_modified_bessel_k1"}, modified_second(kOrder1, Scaled::no));
  def_in_f64(ops, {"aten::special_scaled_modified_bessel_k0"},
             modified_second(kOrder0, Scaled::yes));
  def_in_f64(ops, {"aten::special_scaled_modified_bessel_k1"},
             modified_second(kOrder1, Scaled::yes));
  def_in_f64(ops, {"aten::special_airy_ai"}, airy);
  def_in_f64(ops, {"aten::special_spherical_bessel_j0"}, spherical_bessel_j0);
}

}  // namespace onnx_native::ops
