// The logarithm of the gamma function, its derivative, and entropies.
#include <cmath>
#include <limits>
#include <numbers>

#include "ops/formulas/gamma.h"
#include "ops/formulas/series.h"

namespace onnx_native::ops {
namespace {

// Returns the log of the multivariate gamma function of dimension p (ATen's mvlgamma).
Value multivariate_log_gamma(Builder& b, Value x, int64_t p) {
  constexpr int64_t kMost = 1024;
  b.check(p <= kMost, "p=", p, " is too large; the limit is ", kMost);
  const double dimension = static_cast<double>(p);
  Value sum = f64(b, dimension * (dimension - 1) / 4 * std::log(std::numbers::pi));
  for (int64_t i = 0; i < p; ++i) {
    sum = b.Add(sum, log_gamma(b, b.Sub(x, f64(b, 0.5 * static_cast<double>(i)))));
  }
  return sum;
}

// Returns -x log x; 0 at 0, minus infinity for negative x, NaN for NaN.
Value entropy(Builder& b, Value x) {
  const Value zero = b.like(x, 0);
  const Value positive = b.Greater(x, zero);
  const Value inside = b.Neg(b.Mul(x, b.Log(b.where(positive, x, b.like(x, 1)))));
  const Value below = b.like(x, -std::numeric_limits<double>::infinity());
  const Value result = b.where(b.Less(x, zero), below, inside);
  return b.where(is_nan(b, x), x, result);
}

}  // namespace

void register_special(OpTable& ops) {
  def_in_f64(ops, {"aten::lgamma", "aten::special_gammaln"}, log_gamma);
  def_in_f64(ops, {"aten::digamma", "aten::special_digamma", "aten::special_psi"}, digamma);
  ops.def({"aten::mvlgamma", "aten::special_multigammaln"}, Promote::int_to_float,
          [](Builder& b, Value self, int64_t p) {
            const auto formula = [p](Builder& in, Value x) {
              return multivariate_log_gamma(in, x, p);
            };
            return in_f64(b, formula, self);
          });
  ops.def("aten::special_entr", Promote::int_to_float, entropy);
}

}  // namespace onnx_native::ops
