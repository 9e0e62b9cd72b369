// The error function, its complement and inverses, and the normal distribution.
#include <numbers>

#include "ops/formulas/error_function.h"
#include "ops/formulas/series.h"
#include "ops/formulas/view.h"

namespace onnx_native::ops {
namespace {

Value erfcx(Builder& b, Value x) {
  const Value upper = scaled_upper(b, b.Abs(x));
  const Value power = b.Exp(b.Mul(x, x));
  return reflected(b, x, b.Sub(b.Mul(f64(b, 2), power), upper), upper);
}

Value ndtr(Builder& b, Value x) {
  return b.Mul(f64(b, 0.5), erfc(b, b.Mul(x, f64(b, -1 / std::numbers::sqrt2))));
}

// Returns log(ndtr(x)); uses the scaled function where erfc would underflow.
Value log_ndtr(Builder& b, Value x) {
  const Value t = b.Mul(x, f64(b, -1 / std::numbers::sqrt2));
  const Value square = b.Mul(t, t);
  const Value upper = scaled_upper(b, b.Abs(t));
  const Value half = b.Mul(f64(b, 0.5), upper);
  const Value low = b.Sub(b.Log(half), square);
  const Value high = log1p(b, b.Neg(b.Mul(half, b.Exp(b.Neg(square)))));
  return reflected(b, x, low, high);
}

// Returns erfinv(x). The caller passes 1 - x^2, which x alone gives inaccurately near 1.
Value inverse_error_function(Builder& b, Value x, Value one_minus_square) {
  const Value w = b.Neg(b.Log(one_minus_square));
  const Value middle = ratio(b, w, fits::kErfinvTop, fits::kErfinvBottom);
  const Value logarithm = b.Log(b.Mul(w, f64(b, std::numbers::pi / 4)));
  const Value y = b.Sqrt(b.Sub(w, b.Mul(f64(b, 0.5), logarithm)));
  const Value tail =
      b.Mul(y, ratio(b, b.Reciprocal(y), fits::kErfinvTailTop, fits::kErfinvTailBottom));
  const Value factor = b.where(b.Less(w, f64(b, 6.25)), middle, tail);
  const Value end = b.Equal(w, f64(b, kInfinity));
  return b.Mul(x, b.where(end, f64(b, kInfinity), factor));
}

Value erfinv(Builder& b, Value x) {
  const Value one = f64(b, 1);
  return inverse_error_function(b, x, b.Mul(b.Sub(one, x), b.Add(one, x)));
}

// Returns sqrt(2) erfinv(2 p - 1).
Value ndtri(Builder& b, Value p) {
  const Value one = f64(b, 1);
  const Value x = b.Sub(b.Mul(f64(b, 2), p), one);
  const Value one_minus_square = b.Mul(f64(b, 4), b.Mul(p, b.Sub(one, p)));
  return b.Mul(f64(b, std::numbers::sqrt2), inverse_error_function(b, x, one_minus_square));
}

}  // namespace

void register_special_error(OpTable& ops) {
  for (const char* key : {"aten::erf", "aten::special_erf"})
    ops.unary(key, "Erf", Promote::int_to_float);
  def_in_f64(ops, {"aten::erfc", "aten::special_erfc"}, erfc);
  def_in_f64(ops, {"aten::special_erfcx"}, erfcx);
  def_in_f64(ops, {"aten::erfinv", "aten::special_erfinv"}, erfinv);
  def_in_f64(ops, {"aten::special_ndtr"}, ndtr);
  def_in_f64(ops, {"aten::special_log_ndtr"}, log_ndtr);
  def_in_f64(ops, {"aten::special_ndtri"}, ndtri);
}

}  // namespace onnx_native::ops
